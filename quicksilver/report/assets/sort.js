for (const button of document.querySelectorAll("th button")) button.addEventListener("click", () => {
  const head = button.parentElement, at = head.cellIndex, body = head.closest("table").tBodies[0];
  const down = head.getAttribute("aria-sort") === "ascending";
  for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  const gone = row => row.cells[at].hasAttribute("data-none");
  const compare = (one, other) => {
    const a = one.cells[at], b = other.cells[at];
    if (a.dataset.v !== undefined && b.dataset.v !== undefined) return a.dataset.v - b.dataset.v;
    return a.textContent.localeCompare(b.textContent, undefined, {numeric: true});
  };
  const rows = [...body.rows].sort((a, b) => gone(a) - gone(b) || (down ? compare(b, a) : compare(a, b)));
  body.append(...rows);
});
