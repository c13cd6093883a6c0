// Before anything is drawn: the theme that was chosen here, else the system's.
(() => {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const chosen = () => { try { return localStorage.getItem("headtohead-theme"); } catch { return null; } };
  const apply = () => {
    document.documentElement.dataset.theme = chosen() ?? (system.matches ? "dark" : "light");
    document.dispatchEvent(new Event("themed"));
  };
  system.addEventListener("change", apply);
  document.addEventListener("theme-wanted", (event) => {
    try { localStorage.setItem("headtohead-theme", event.detail); } catch { /* private windows keep nothing */ }
    document.documentElement.dataset.theme = event.detail;
    document.dispatchEvent(new Event("themed"));
  });
  apply();
})();
