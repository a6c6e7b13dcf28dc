import type { parseTree } from "./yaml_tree.ts";

/** The exports of package `yaml` that Sluice uses. */
export type Yaml = typeof import("./yaml_package.ts");

/** Loads package `yaml` on first use, since it takes megabytes. Needs no permission to read the environment. */
export async function loadYaml(): Promise<Yaml> {
  if (Deno.permissions.querySync({ name: "env" }).state !== "granted") {
    // The parser reads two debug variables; replacing process.env avoids the permission check.
    const { default: process } = await import("node:process");
    process.env = {};
  }
  return await import("./yaml_package.ts");
}

/** Loads the parser of YAML trees on first use, with package `yaml`. */
export async function loadTreeParser(): Promise<typeof parseTree> {
  await loadYaml();
  const { parseTree } = await import("./yaml_tree.ts");
  return parseTree;
}
