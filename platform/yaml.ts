/** What Sluice uses of the package `yaml`. */
export type Yaml = typeof import("./yaml_package.ts");

/**
 * Loads the package, which takes megabytes of memory, when YAML is read or written. It works without the right to read the
 * environment, too.
 */
export async function loadYaml(): Promise<Yaml> {
  if (Deno.permissions.querySync({ name: "env" }).state !== "granted") {
    // It looks for two variables of its own whenever it parses; of an environment of our own it needs no right.
    const { default: process } = await import("node:process");
    process.env = {};
  }
  return await import("./yaml_package.ts");
}
