import type { ToolResult } from "../../../backends/tools/runner.ts";
import { Uninterpreted } from "../iptables/errors.ts";
import type { IpvsKernel } from "./kernel.ts";

const VERSION = "ipset v7.17";

/**
 * What ipset 7.17 answers. A batch ends at the first line that is refused. What stands before it is done, but for lines
 * that ipset has not sent yet: it sends those that do the same to the same set together, and looks for the next line's
 * set before.
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
    const [does, name = ""] = text.split(" ", 2), changesSet = does === "add" || does === "del";
    if (changesSet && !kernel.sets.has(name)) return failedAt(i + 1, "The set with the given name does not exist");
    const isTogether = changesSet && (unsent[0]?.text ?? text).startsWith(`${does} ${name} `);
    const failed = isTogether ? undefined : send();
    if (failed) return failed;
    unsent.push({ text, number: i + 1 });
    const failedAtOnce = changesSet ? undefined : send();
    if (failedAtOnce) return failedAtOnce;
  }
  return send() ?? { exitCode: 0, stdout: "", stderr: "" };
}

function failedAt(line: number, refusal: string): ToolResult {
  return { exitCode: 1, stdout: "", stderr: `${VERSION}: Error in line ${line}: ${refusal}\n` };
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
      throw new Uninterpreted(`ipset ${line}`);
  }
}
