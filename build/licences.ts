/** Writes docs/licences.md: `deno task licences`. */
import { cacheFolders, licenceOf, type LockedPackage, lockedPackages } from "./packages.ts";

/** The page's text; `licence` gives what a package declares. */
export function licencesPage(packages: readonly LockedPackage[], licence: (one: LockedPackage) => string): string {
  const rows = packages.map((one) => `| ${one.name} | ${one.version} | ${licence(one)} |`);
  return `# Licences

Every package that \`deno.lock\` pins, those for tests among them, with the licence that it declares. What an executable
really holds is in \`dist/sluice.cdx.json\` (CycloneDX), which \`compile.sh\` writes beside it; besides these packages that is
Deno (MIT) with V8 (BSD-3-Clause). This page is made by \`deno task licences\`.

| package | version | licence |
|---|---|---|
${rows.join("\n")}
`;
}

if (import.meta.main) {
  const root = new URL("../", import.meta.url);
  const caches = cacheFolders();
  const packages = lockedPackages(Deno.readTextFileSync(new URL("deno.lock", root)));
  const page = licencesPage(packages, (one) => licenceOf(one, caches) ?? "not declared");
  Deno.writeTextFileSync(new URL("docs/licences.md", root), page);
}
