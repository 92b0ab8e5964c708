// A table with sorting, a filter and pages. Its state is in the page's address, so that a view can be sent to others.
import { el, query, setQuery, count, numberLink } from "./frame.js";

export class DataTable {
  /**
   * columns: [{key, label, number?, value?: row => text or number to sort and filter by,
   *            text?: row => text to filter by, if it differs, cell?: row => node or text, json?: row => address of the JSON of a number, help?}]
   * rowKey: row => id; name: prefix of the parameters in the address, where a page has several tables.
   */
  constructor(where, { columns, rowKey, pageSize = 50, name = "", sort = "", empty = "Nothing matches the filter.", label = "Table" }) {
    Object.assign(this, { columns, rowKey, pageSize, prefix: name ? `${name}-` : "", empty, defaultSort: sort });
    this.rows = [];
    const params = query();
    this.sort = params.get(`${this.prefix}sort`) ?? sort;
    this.filterText = params.get(`${this.prefix}q`) ?? "";
    this.page = Math.max(1, Number(params.get(`${this.prefix}page`)) || 1);
    this.matches = () => true;
    this.filter = el("input", { type: "search", placeholder: "Filter", "aria-label": `Filter: ${label}`, value: this.filterText,
      oninput: () => { this.filterText = this.filter.value; this.page = 1; this.show(); } });
    this.status = el("span", { class: "table-status", role: "status" });
    this.before = el("button", { type: "button", "aria-label": "Previous page", onclick: () => this.turn(-1) }, "‹");
    this.after = el("button", { type: "button", "aria-label": "Next page", onclick: () => this.turn(1) }, "›");
    this.head = el("tr");
    this.body = el("tbody");
    this.extra = el("span", { class: "table-extra" });
    this.heads = columns.map((column) => this.headOf(column));
    this.head.append(...this.heads.map((one) => one.cell));
    this.bar = el("div", { class: "table-bar", hidden: true }, this.filter, this.extra, el("span", { class: "spring" }), this.status,
    el("span", { class: "pager" }, this.before, this.after));
    where.replaceChildren(this.bar,
      el("div", { class: "table-scroll", tabindex: "0", role: "region", "aria-label": label },
        el("table", {}, el("thead", {}, this.head), this.body)));
  }

  headOf(column) {
    const cell = el("th", { scope: "col", class: column.number ? "num" : null });
    if (column.sortable === false) cell.append(column.label);
    else cell.append(el("button", { type: "button", title: column.help, onclick: () => this.sortBy(column) }, column.label));
    return { cell, column };
  }

  sortBy(column) {
    const first = column.number ? `-${column.key}` : column.key;
    const second = column.number ? column.key : `-${column.key}`;
    this.sort = this.sort === first ? second : first;
    this.page = 1;
    this.show();
  }

  turn(by) {
    this.page += by;
    this.show();
  }

  update(rows) {
    this.rows = rows;
    this.show();
  }

  value(column, row) { return column.value ? column.value(row) : row[column.key]; }

  chosen() {
    const words = this.filterText.toLowerCase().split(/\s+/).filter(Boolean);
    let rows = this.rows.filter((row) => this.matches(row));
    if (words.length) {
      rows = rows.filter((row) => {
        const text = this.columns.map((column) => (column.text ? column.text(row) : this.value(column, row)) ?? "").join(" ").toLowerCase();
        return words.every((word) => text.includes(word));
      });
    }
    const down = this.sort.startsWith("-");
    const column = this.columns.find((one) => one.key === this.sort.replace(/^-/, ""));
    if (!column) return rows;
    const compare = (a, b) => {
      const [x, y] = [this.value(column, a), this.value(column, b)];
      if (x === y) return 0;
      if (x === null || x === undefined || x === "") return 1; // what has no value comes last, either way
      if (y === null || y === undefined || y === "") return -1;
      const order = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y), "en", { numeric: true });
      return down ? -order : order;
    };
    return [...rows].sort((a, b) => compare(a, b) || String(this.rowKey(a)).localeCompare(String(this.rowKey(b)), "en", { numeric: true }));
  }

  show() {
    const rows = this.chosen();
    const pages = Math.max(1, Math.ceil(rows.length / this.pageSize));
    this.page = Math.min(Math.max(1, this.page), pages);
    const from = (this.page - 1) * this.pageSize;
    const part = rows.slice(from, from + this.pageSize);
    for (const { cell, column } of this.heads) {
      const own = this.sort.replace(/^-/, "") === column.key;
      if (own) cell.setAttribute("aria-sort", this.sort.startsWith("-") ? "descending" : "ascending");
      else cell.removeAttribute("aria-sort");
    }
    this.fill(part);
    // A table that one sees at a glance needs neither filter nor pages.
    this.bar.hidden = this.rows.length <= Math.min(10, this.pageSize) && !this.filterText && !this.extra.childElementCount;
    this.status.textContent = rows.length
      ? `${count(from + 1)}–${count(from + part.length)} of ${count(rows.length)}${rows.length < this.rows.length ? ` (${count(this.rows.length)} in all)` : ""}`
      : "none";
    this.before.disabled = this.page <= 1;
    this.after.disabled = this.page >= pages;
    setQuery({
      [`${this.prefix}sort`]: this.sort === this.defaultSort ? "" : this.sort,
      [`${this.prefix}q`]: this.filterText, [`${this.prefix}page`]: this.page > 1 ? this.page : "",
    });
  }

  /** Draws the rows; the focus stays in its row and column. */
  fill(rows) {
    const held = this.body.contains(document.activeElement) ? document.activeElement : null;
    const place = held && [held.closest("tr").dataset.key, [...held.closest("td").parentNode.children].indexOf(held.closest("td"))];
    if (!rows.length) {
      this.body.replaceChildren(el("tr", {}, el("td", { colspan: this.columns.length, class: "table-empty" }, this.empty)));
      return;
    }
    this.body.replaceChildren(...rows.map((row) => el("tr", { "data-key": this.rowKey(row) }, ...this.columns.map((column) => this.cellOf(column, row)))));
    if (place) {
      const again = [...this.body.children].find((tr) => tr.dataset.key === place[0]);
      again?.children[place[1]]?.querySelector("a, button")?.focus({ preventScroll: true });
    }
  }

  cellOf(column, row) {
    const value = column.cell ? column.cell(row) : (this.value(column, row) ?? "–");
    // One stop of the tab key in a row is enough: numbers of a row lead to the same JSON.
    const content = column.json && !(value instanceof Node) ? numberLink(typeof value === "number" ? count(value) : value, column.json(row), { tabindex: "-1" }) : value;
    return el("td", { class: column.number ? "num" : column.wrap ? "wrap" : null }, content);
  }
}
