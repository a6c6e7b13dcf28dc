import type { ToolResult } from "../../../backends/tools/runner.ts";
import { Unsupported } from "../iptables/errors.ts";
import type { IpvsKernel } from "./kernel.ts";

const VERSION = "ipset v7.17";

/**
 * Fakes ipset 7.17. A batch stops at the first refused line; earlier lines take effect if they were sent already. ipset sends
 * consecutive lines with the same command and set together, after looking up the set of the next line.
 * @param isUsed whether an iptables rule uses a set
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
  if (words !== "restore -exist") throw new Unsupported(`ipset ${words}`);
  let unsent: { readonly text: string; readonly number: number }[] = [];
  const send = (): ToolResult | undefined => {
    const lines = unsent;
    unsent = [];
    for (const { text, number } of lines) {
      const refusal = command(kernel, text, isUsed);
      if (refusal) return failedAt(number, refusal);
    }
    return undefined;
  };
  for (const [i, text] of stdin.split("\n").entries()) {
    if (text === "") continue;
    const [verb, name = ""] = text.split(" ", 2), changesSet = verb === "add" || verb === "del";
    if (changesSet && !kernel.sets.has(name)) return failedAt(i + 1, "The set with the given name does not exist");
    const isSameBatch = changesSet && (unsent[0]?.text ?? text).startsWith(`${verb} ${name} `);
    const failed = isSameBatch ? undefined : send();
    if (failed) return failed;
    unsent.push({ text, number: i + 1 });
    const failedNow = changesSet ? undefined : send();
    if (failedNow) return failedNow;
  }
  return send() ?? { exitCode: 0, stdout: "", stderr: "" };
}

function failedAt(line: number, refusal: string): ToolResult {
  return { exitCode: 1, stdout: "", stderr: `${VERSION}: Error in line ${line}: ${refusal}\n` };
}

/** The output of `ipset save`. */
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
  const [verb, name = "", element = "", ...options] = line.split(" ");
  const set = sets.get(name);
  switch (verb) {
    case "create":
      if (set && (set.type !== element || set.options !== options.join(" "))) {
        return "Set cannot be created: set with the same name already exists";
      }
      if (name.length > 31) return `Syntax error: setname '${name}' is longer than 31 characters`;
      if (!set) sets.set(name, { type: element, options: options.join(" "), entries: new Set() });
      return undefined;
    case "add":
      if (/\/0$/.test(element)) return "The value of the CIDR parameter of the IP address is invalid";
      set!.entries.add(element);
      return undefined;
    case "del":
      set!.entries.delete(element);
      return undefined;
    case "destroy":
      if (isUsed(name)) return "Set cannot be destroyed: it is in use by a kernel component";
      sets.delete(name);
      return undefined;
    default:
      throw new Unsupported(`ipset ${line}`);
  }
}
