// The theme that was chosen here outlives the page; private windows keep nothing.
{
  const KEY = "headtohead-theme";
  try { theme.chosen = localStorage.getItem(KEY); } catch { theme.chosen = null; }
  theme.apply();
  theme.listeners.push(() => {
    try { if (theme.chosen !== null) localStorage.setItem(KEY, theme.chosen); } catch { /* saved for this page only */ }
  });
}
