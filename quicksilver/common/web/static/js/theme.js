"use strict";
// Runs before the page is drawn, so that it does not appear in the wrong colours first.
(() => {
  const chosen = localStorage.getItem("quicksilver-theme");
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
})();
