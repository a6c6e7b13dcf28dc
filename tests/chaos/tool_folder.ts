/** A PATH of one folder whose tools can be removed and restored while Sluice runs. */

/** The tools that Sluice and the programs that start it look up. */
const TOOLS = [
  ...["iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore"],
  ...["nft", "conntrack", "sysctl", "choom", "prlimit", "ip"],
];

/** The folder and its contents. */
export interface ToolFolder {
  /** The environment for Sluice. */
  readonly env: Readonly<Record<string, string>>;
  /** Removes tools from the folder. */
  remove(names: readonly string[]): Promise<void>;
  /** Puts shell scripts in place of tools. */
  write(names: readonly string[], script: string): Promise<void>;
  /** Puts tools into the folder. */
  add(names: readonly string[]): Promise<void>;
}

/**
 * Creates the folder with all tools in it.
 * @param flavour which iptables the folder has: the host's default or iptables-legacy
 */
export async function createToolFolder(folder: string, flavour: "default" | "legacy" = "default"): Promise<ToolFolder> {
  await Deno.mkdir(folder);
  const tools: ToolFolder = {
    env: { PATH: folder },
    async remove(names) {
      for (const name of names) await Deno.remove(`${folder}/${name}`);
    },
    async write(names, script) {
      for (const name of names) {
        await Deno.writeTextFile(`${folder}/${name}`, `#!/bin/sh\n${script}\n`, { mode: 0o755 });
      }
    },
    async add(names) {
      for (const name of names) {
        const path = await find(flavour === "legacy" ? name.replace("tables", "tables-legacy") : name);
        if (path !== undefined) await Deno.symlink(path, `${folder}/${name}`);
      }
    },
  };
  await tools.add(TOOLS);
  return tools;
}

async function find(name: string): Promise<string | undefined> {
  for (const folder of Deno.env.get("PATH")!.split(":")) {
    const path = `${folder}/${name}`;
    if (await Deno.stat(path).then(({ isFile }) => isFile, () => false)) return path;
  }
}
