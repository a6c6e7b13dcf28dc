/** A PATH of one folder, from which tools can be taken away and put back as Sluice runs. */

/** The tools that Sluice, and what starts it in its place, may look for. */
const TOOLS = [
  ...["iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore"],
  ...["nft", "conntrack", "sysctl", "choom", "ip"],
];

/** The folder. */
export interface Toolbox {
  /** What to set for Sluice. */
  readonly env: Readonly<Record<string, string>>;
  /** Takes tools out of it. */
  takeAway(names: readonly string[]): Promise<void>;
  /** Puts tools into it. */
  putBack(names: readonly string[]): Promise<void>;
}

/**
 * Makes the folder with all tools in it.
 * @param flavour which iptables it is; the host's usual one by default
 */
export async function createToolbox(folder: string, flavour: "usual" | "legacy" = "usual"): Promise<Toolbox> {
  await Deno.mkdir(folder);
  const toolbox: Toolbox = {
    env: { PATH: folder },
    async takeAway(names) {
      for (const name of names) await Deno.remove(`${folder}/${name}`);
    },
    async putBack(names) {
      for (const name of names) {
        const path = await find(flavour === "legacy" ? name.replace("tables", "tables-legacy") : name);
        if (path !== undefined) await Deno.symlink(path, `${folder}/${name}`);
      }
    },
  };
  await toolbox.putBack(TOOLS);
  return toolbox;
}

async function find(name: string): Promise<string | undefined> {
  for (const folder of Deno.env.get("PATH")!.split(":")) {
    const path = `${folder}/${name}`;
    if (await Deno.stat(path).then(({ isFile }) => isFile, () => false)) return path;
  }
}
