import type { Family } from "../../../platform/address.ts";
import { ParameterProblem, Unsupported } from "./errors.ts";
import { parseRule, type Rule } from "./rule.ts";
import type { TableChange } from "./tables.ts";

/** A command of iptables, from its arguments or a line of iptables-restore. */
export type Command =
  | { readonly verb: "append" | "check"; readonly chain: string; readonly rule: Rule }
  | { readonly verb: "insert"; readonly chain: string; readonly position: number; readonly rule: Rule }
  | { readonly verb: "delete"; readonly chain: string; readonly rule: Rule | number }
  | { readonly verb: "policy"; readonly chain: string; readonly policy: string }
  | { readonly verb: "create"; readonly chain: string }
  | { readonly verb: "flush" | "remove" | "list" | "print" | "zero"; readonly chain: string | undefined };

const COMMANDS: Readonly<Record<string, Command["verb"]>> = {
  "-A": "append",
  "--append": "append",
  "-C": "check",
  "--check": "check",
  "-I": "insert",
  "--insert": "insert",
  "-D": "delete",
  "--delete": "delete",
  "-P": "policy",
  "--policy": "policy",
  "-N": "create",
  "--new-chain": "create",
  "-F": "flush",
  "--flush": "flush",
  "-X": "remove",
  "--delete-chain": "remove",
  "-L": "list",
  "--list": "list",
  "-S": "print",
  "--list-rules": "print",
  "-Z": "zero",
  "--zero": "zero",
};

/** Parses a command. Throws iptables' errors. */
export function parseCommand(words: readonly string[], family: Family, table: string): Command {
  const [first, chain] = words;
  if (first === undefined) throw new ParameterProblem("no command specified");
  if (!first.startsWith("-")) throw new ParameterProblem(`Bad argument \`${first}'`, true);
  if (["-R", "--replace", "-E", "--rename-chain"].includes(first)) throw new Unsupported(first);
  const verb = Object.hasOwn(COMMANDS, first) ? COMMANDS[first] : undefined;
  if (verb === undefined) throw new ParameterProblem(`unknown option "${first}"`);
  switch (verb) {
    case "flush":
    case "remove":
    case "list":
    case "print":
    case "zero":
      return { verb, chain };
  }
  if (chain === undefined) throw new ParameterProblem(`option "${first}" requires an argument`);
  const ruleFrom = (index: number) => parseRule(words.slice(index), { family, table, chain });
  const number = words[2] !== undefined && /^\d+$/.test(words[2]) ? Number(words[2]) : undefined;
  if (number === 0) throw new ParameterProblem("Invalid rule number `0'");
  switch (verb) {
    case "create":
      return { verb, chain };
    case "policy":
      return { verb, chain, policy: words[2] ?? "" };
    case "insert":
      return { verb, chain, position: number ?? 1, rule: ruleFrom(number === undefined ? 2 : 3) };
    case "delete":
      return { verb, chain, rule: number ?? ruleFrom(2) };
    default:
      return { verb, chain, rule: ruleFrom(2) };
  }
}

/** Applies a command to a table. @param line the line of the command */
export function applyCommand(change: TableChange, command: Command, line: number): void {
  switch (command.verb) {
    case "append":
      return change.append(line, command.chain, command.rule);
    case "insert":
      return change.insert(line, command.chain, command.position, command.rule);
    case "delete":
      return change.removeRule(line, command.chain, command.rule);
    case "policy":
      return change.setPolicy(line, command.chain, command.policy);
    case "create":
      return change.create(line, command.chain);
    case "flush":
      return change.flush(line, command.chain);
    case "remove":
      return change.remove(line, command.chain);
    case "check":
      return change.check(command.chain, command.rule);
    case "zero":
      return;
    default:
      throw new Unsupported(`${command.verb} as a change`);
  }
}

/** Splits a line as iptables-restore does: quotes group words, and a backslash escapes inside them. */
export function splitWords(line: string): string[] {
  if (!line.includes('"')) return line.split(/[ \t]+/).filter((word) => word !== "");
  const words: string[] = [];
  let word = "", started = false, quoted = false;
  for (let i = 0; i < line.length; i++) {
    const character = line[i]!;
    if (quoted && character === "\\") word += line[++i] ?? "";
    else if (character === '"') {
      quoted = !quoted;
      started = true;
    } else if (!quoted && (character === " " || character === "\t")) {
      if (started || word !== "") words.push(word);
      word = "";
      started = false;
    } else word += character;
  }
  if (quoted) throw new Unsupported("an unclosed quote");
  if (started || word !== "") words.push(word);
  return words;
}
