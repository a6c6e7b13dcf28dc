/** Who answers the commands that ask: a running proxy, or this process, on a source that it reads once. */
import type { Answers } from "../core/answers/mod.ts";
import { type Flag, option, text } from "../core/config/mod.ts";
import type { Family, FamilyDelta, RuleDescription, ServicePortKey } from "../core/model.ts";
import { FAMILIES } from "../platform/address.ts";
import { writeToStderr } from "../platform/output.ts";
import type { Invocation } from "./command.ts";

/**
 * The answers of the running proxy, through its control socket; or, where a source is named or no proxy runs, those of
 * this process on the source that the configuration names. Standard error says which.
 */
export async function answersOf(invocation: Invocation): Promise<Answers> {
  const { configuration: { controlSocket: path }, flags } = invocation;
  if (path === undefined || flags.has("source")) return await answersOfSource(invocation);
  const { askProxy, NoProxyError } = await import("../core/control/client.ts");
  try {
    const answers = await askProxy(path);
    writeToStderr(`sluice: the proxy at ${path} answers\n`);
    return answers;
  } catch (error) {
    if (!(error instanceof NoProxyError)) throw error;
    writeToStderr(`sluice: ${error.message}; the source is read instead\n`);
    return await answersOfSource(invocation);
  }
}

async function answersOfSource({ configuration, logger, clock, signal }: Invocation): Promise<Answers> {
  const { answerOffline } = await import("../core/answers/offline.ts");
  const rules = (family: Family, state: FamilyDelta, key: ServicePortKey) => renderedRules(family, state, key, clock);
  return await answerOffline({ configuration, logger, clock, signal, rules });
}

async function renderedRules(
  family: Family,
  state: FamilyDelta,
  key: ServicePortKey,
  clock: Invocation["clock"],
): Promise<RuleDescription | undefined> {
  const { rehearse } = await import("../backends/rehearsal/mod.ts");
  const rehearsal = { family, state, clock };
  const backend = await rehearse(rehearsal, { read: undefined, onChange: () => {} });
  return backend.describe?.(key);
}

/** The value of a flag that must be one of `choices`, the first where it is not given; undefined, with a complaint, otherwise. */
export function choiceOf<C extends string>({ flags }: Invocation, flag: string, choices: readonly C[]): C | undefined {
  const given = flags.get(flag) ?? choices[0];
  const chosen = choices.find((choice) => choice === given);
  if (chosen === undefined) misused(`--${flag} is ${JSON.stringify(given)}: must be ${choices.join(" or ")}`);
  return chosen;
}

/** Says what is wrong with the command line, and returns the exit status for that. */
export function misused(complaint: string): 2 {
  writeToStderr(`sluice: ${complaint}\n`);
  return 2;
}

/** JSON for people and programs alike. */
export function jsonText(data: unknown): string {
  return `${JSON.stringify(data, null, 2)}\n`;
}

/** The flag for one IP family. */
export const FAMILY_FLAG: Flag = option("family", text(), "IPv4 or IPv6; both without it.");

/** The families that are asked for; undefined, with a complaint, where that cannot be read. */
export function familiesOf(invocation: Invocation): readonly Family[] | undefined {
  if (!invocation.flags.has(FAMILY_FLAG.name)) return FAMILIES;
  const family = choiceOf(invocation, FAMILY_FLAG.name, FAMILIES);
  return family && [family];
}
