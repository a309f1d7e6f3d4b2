/** Light, dark, or as the system has it; remembered in this browser only. */
const KEY = "conceptlens-theme";
/** @type {Record<string, [string, string]>} */
const NAMES = { auto: ["◐", "as the system has it"], light: ["☀", "light"], dark: ["☾", "dark"] };
const ORDER = ["auto", "light", "dark"];

function stored() {
  try {
    return localStorage.getItem(KEY) ?? "auto";
  } catch {
    return "auto"; // a browser that keeps nothing for us
  }
}

/** @param {string} theme */
function apply(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  const button = document.getElementById("theme");
  if (button) {
    const [sign, name] = NAMES[theme] ?? NAMES.auto;
    button.textContent = sign;
    button.setAttribute("aria-label", `Colors: ${name}. Change`);
    button.title = `Colors: ${name} (t)`;
  }
  window.dispatchEvent(new Event("theme"));
}

export function nextTheme() {
  const theme = ORDER[(ORDER.indexOf(stored()) + 1) % ORDER.length];
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    document.documentElement.dataset.theme = theme; // kept for as long as the page is open
  }
  apply(theme);
}

export function startTheme() {
  apply(stored());
  document.getElementById("theme")?.addEventListener("click", nextTheme);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => window.dispatchEvent(new Event("theme")));
}
