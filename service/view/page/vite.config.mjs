// Builds the page into dist/, which is committed: who runs Waterspout needs no Node. dist/sources.sha256 names the sources that it
// was built from; a test compares.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { defineConfig } from "vite";

const SOURCES = ["index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.mjs"];

function digest() {
  const files = [...SOURCES, ...readdirSync("src").map((name) => `src/${name}`)].sort();
  const hash = createHash("sha256");
  for (const file of files) hash.update(file).update("\0").update(readFileSync(file)).update("\0");
  return hash.digest("hex");
}

export default defineConfig({
  base: "/view/page/",
  build: {
    target: "es2022",
    modulePreload: false,
    assetsInlineLimit: 0,
    rollupOptions: {
      output: { entryFileNames: "view.js", chunkFileNames: "[name].js", assetFileNames: "[name][extname]" },
    },
  },
  plugins: [{ name: "sources", closeBundle: () => writeFileSync("dist/sources.sha256", `${digest()}\n`) }],
});
