/** Writes dist/site, except its script: `deno task site`. */
import { buildSite } from "./mod.ts";

const root = new URL("../../", import.meta.url);
const target = new URL("dist/site/", root);
try {
  Deno.removeSync(target, { recursive: true });
} catch (error) {
  if (!(error instanceof Deno.errors.NotFound)) throw error;
}
const files = buildSite(root);
for (const [path, content] of files) {
  const file = new URL(path, target);
  Deno.mkdirSync(new URL(".", file), { recursive: true });
  if (typeof content === "string") Deno.writeTextFileSync(file, content);
  else Deno.writeFileSync(file, content);
}
const pages = [...files.keys()].filter((path) => path.endsWith(".html"));
console.log(`dist/site: ${pages.length} pages, ${files.size - pages.length} other files`);
