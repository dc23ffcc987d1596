// Colours: of the page, from its style sheet, and of loads.

export interface Theme {
  dark: boolean;
  sea: string;
  land: string;
  coast: string;
  state: string;
  grid: string;
  edge: string;
  ink: string;
  quiet: string;
  object: string;
  alert: string;
  move: string;
  fault: string;
  halo: string;
}

export function readTheme(): Theme {
  const style = getComputedStyle(document.documentElement);
  const read = (name: string) => style.getPropertyValue(`--${name}`).trim();
  return {
    dark: read("dark") === "1", sea: read("sea"), land: read("land"), coast: read("coast"), state: read("border"), grid: read("grid"),
    edge: read("edge"), ink: read("ink"), quiet: read("quiet"), object: read("object"), alert: read("alert"), move: read("move"),
    fault: read("fault"), halo: read("halo"),
  };
}

const STOPS: [number, number, number, number][] = [
  [0.0, 62, 72, 150],
  [0.25, 45, 116, 176],
  [0.5, 52, 164, 150],
  [0.64, 226, 196, 78],
  [0.8, 248, 142, 48],
  [1.0, 255, 70, 58],
];

/** Where a load is between the coldest, a quarter of the mean, and the hottest, four times: 0 to 1. */
export function heat(ratio: number): number {
  return Math.min(Math.max(0.5 + Math.log2(Math.max(ratio, 1e-3)) / 4, 0), 1);
}

export function loadColour(ratio: number, alpha: number): string {
  const place = heat(ratio);
  let i = 1;
  while (STOPS[i][0] < place) i++;
  const [a, b] = [STOPS[i - 1], STOPS[i]];
  const part = (place - a[0]) / (b[0] - a[0]);
  const mix = (k: number) => Math.round(a[k] + (b[k] - a[k]) * part);
  return `rgba(${mix(1)},${mix(2)},${mix(3)},${alpha})`;
}

/** The colour of an area: the hotter, the more of it, so that what is hot stands out to those too who see no hues. */
export function loadFill(ratio: number): string {
  return loadColour(ratio, 0.2 + 0.46 * heat(ratio));
}

export const loadGradient = `linear-gradient(90deg, ${Array.from({ length: 13 }, (_, i) => loadColour(2 ** ((i - 6) / 3), 1)).join(", ")})`;

export function toggleTheme(): void {
  const root = document.documentElement;
  const dark = getComputedStyle(root).getPropertyValue("--dark").trim() === "1";
  root.dataset.theme = dark ? "light" : "dark";
  try {
    localStorage.setItem("waterspout-theme", root.dataset.theme);
  } catch {
    // a browser that keeps nothing
  }
}

export function recallTheme(): void {
  try {
    const kept = localStorage.getItem("waterspout-theme");
    if (kept === "dark" || kept === "light") document.documentElement.dataset.theme = kept;
  } catch {
    // a browser that keeps nothing
  }
}
