// Returns the faults of the page as it is drawn.
const faults = [];
const parse = (text) => {
  const parts = text.match(/[\d.]+/g).map(Number);
  return [...parts.slice(0, 3), parts[3] ?? 1];
};
const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
const luminance = (color) => {
  const [r, g, b] = color.slice(0, 3).map((v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ratio = (a, b) => {
  const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x);
  return (high + 0.05) / (low + 0.05);
};
const background = (element) => {
  const layers = [];
  for (let at = element; at; at = at.parentElement) {
    const color = parse(getComputedStyle(at).backgroundColor);
    if (color[3] > 0) layers.push(color);
    if (color[3] === 1) break;
  }
  return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255, 1]);
};
const named = (element) => `${element.tagName.toLowerCase()}${element.id ? `#${element.id}` : ""}.${element.className} "${element.textContent.trim().slice(0, 30)}"`;
const visible = (element) => element.checkVisibility({ opacityProperty: true, visibilityProperty: true }) && element.getClientRects().length > 0;

let texts = 0;
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const element = walker.currentNode.parentElement;
  if (!walker.currentNode.textContent.trim() || ["SCRIPT", "STYLE", "NOSCRIPT", "OPTION"].includes(element.tagName) || !visible(element)) continue;
  if (element.closest("button:disabled, [aria-hidden='true'], .skip:not(:focus)")) continue;
  texts += 1;
  const style = getComputedStyle(element);
  const back = background(element);
  const front = over(parse(style.color), back);
  const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && Number(style.fontWeight) >= 700);
  const found = ratio(front, back);
  if (found < (large ? 3 : 4.5)) faults.push(`contrast ${found.toFixed(2)} of ${named(element)}`);
}
if (texts < 10) faults.push(`only ${texts} texts were looked at`);

for (const swatch of document.querySelectorAll(".swatch")) {
  if (!visible(swatch)) continue;
  const style = getComputedStyle(swatch);
  const color = style.backgroundImage === "none" ? style.backgroundColor : style.borderTopColor;
  const found = ratio(parse(color), background(swatch.parentElement));
  if (found < 2.9) faults.push(`contrast ${found.toFixed(2)} of the mark ${swatch.className}`);
}
for (const control of document.querySelectorAll("a[href], button, input, select, textarea, [role=img], [tabindex='0']")) {
  if (!visible(control) || control.type === "hidden") continue;
  const label = control.getAttribute("aria-label") || control.textContent.trim() || control.labels?.[0]?.textContent.trim() || control.title;
  if (!label) faults.push(`no name: ${named(control)}`);
}
const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
for (const id of new Set(ids)) if (ids.filter((one) => one === id).length > 1) faults.push(`id ${id} is there more than once`);
if (document.querySelectorAll("h1").length !== 1) faults.push("not one h1");
if (document.documentElement.scrollWidth > document.documentElement.clientWidth + 1) faults.push(`the page is wider than the window: ${document.documentElement.scrollWidth}`);
for (const link of document.querySelectorAll("a[href]:not([rel~=external])")) if (/^(https?:)?\//.test(link.getAttribute("href"))) faults.push(`not relative: ${link.getAttribute("href")}`);
return [...new Set(faults)];
