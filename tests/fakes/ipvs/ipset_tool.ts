import type { ToolResult } from "../../../backends/runner.ts";
import { Uninterpreted } from "../iptables/errors.ts";
import type { IpvsKernel } from "./kernel.ts";

const VERSION = "ipset v7.17";

/**
 * What ipset 7.17 answers. A batch ends at the first line that the kernel refuses; what stands before it is done.
 * @param isUsed whether a rule of iptables names a set
 */
export function runIpset(
  kernel: IpvsKernel,
  args: readonly string[],
  stdin: string,
  isUsed: (set: string) => boolean,
): ToolResult {
  const words = args.join(" ");
  if (words === "save") return { exitCode: 0, stdout: savedSets(kernel), stderr: "" };
  if (words === "list -n") {
    return {
      exitCode: 0,
      stdout: [...kernel.sets.keys()].map((name) => `${name}\n`).join(""),
      stderr: "",
    };
  }
  if (words !== "restore -exist") throw new Uninterpreted(`ipset ${words}`);
  const lines = stdin.split("\n");
  for (let i = 0; i < lines.length; i++) {
    const refusal = lines[i] === "" ? undefined : command(kernel, lines[i]!, isUsed);
    if (refusal) return { exitCode: 1, stdout: "", stderr: `${VERSION}: Error in line ${i + 1}: ${refusal}\n` };
  }
  return { exitCode: 0, stdout: "", stderr: "" };
}

/** What `ipset save` prints. */
export function savedSets({ sets }: IpvsKernel): string {
  let text = "";
  for (const [name, { type, options, entries }] of sets) {
    const more = type.startsWith("hash:") ? " bucketsize 12 initval 0x90643e7a" : "";
    text += `create ${name} ${type} ${options}${more}\n`;
    for (const entry of entries) text += `add ${name} ${entry}\n`;
  }
  return text;
}

function command({ sets }: IpvsKernel, line: string, isUsed: (set: string) => boolean): string | undefined {
  const [does, name = "", element = "", ...options] = line.split(" ");
  const set = sets.get(name);
  switch (does) {
    case "create":
      if (set && (set.type !== element || set.options !== options.join(" "))) {
        return "Set cannot be created: set with the same name already exists";
      }
      if (name.length > 31) return `Syntax error: setname '${name}' is longer than 31 characters`;
      if (!set) sets.set(name, { type: element, options: options.join(" "), entries: new Set() });
      return undefined;
    case "add":
      if (!set) return "The set with the given name does not exist";
      if (/\/0$/.test(element)) return "The value of the CIDR parameter of the IP address is invalid";
      set.entries.add(element);
      return undefined;
    case "del":
      if (!set) return "The set with the given name does not exist";
      set.entries.delete(element);
      return undefined;
    case "destroy":
      if (isUsed(name)) return "Set cannot be destroyed: it is in use by a kernel component";
      sets.delete(name);
      return undefined;
    default:
      throw new Uninterpreted(`ipset ${line}`);
  }
}
