/** The source of the answers of explain, get, render and diff: the running proxy, or a source read once. */
import type { Answers } from "../../answers/mod.ts";
import type { ControlAnswers } from "../../answers/control/mod.ts";
import type { Family, FamilyDelta, RuleDescription, ServicePortKey } from "../../core/model/mod.ts";
import { writeToStderr } from "../../platform/mod.ts";
import type { Invocation } from "./command.ts";

/**
 * Returns the answers of the running proxy through its control socket. If --source is given or no proxy runs, returns those
 * of this process for the configured source. Prints to standard error which one it is.
 */
export async function answersOf(invocation: Invocation): Promise<Answers | ControlAnswers> {
  const { configuration: { controlSocket: path }, flags, isInstalled } = invocation;
  if (path === undefined || flags.has("source") && !isInstalled) return await answersOfSource(invocation);
  const { connectToProxy, NoProxyError } = await import("../../answers/control/mod.ts");
  try {
    const answers = await connectToProxy(path);
    writeToStderr(`sluice: answered by the proxy at ${path}\n`);
    return answers;
  } catch (error) {
    if (!(error instanceof NoProxyError)) throw error;
    writeToStderr(`sluice: ${error.message}; reading the source instead\n`);
    return await answersOfSource(invocation);
  }
}

async function answersOfSource(invocation: Invocation): Promise<Answers> {
  const { clock } = invocation;
  const { answerOffline } = await import("../../answers/mod.ts");
  const rules = (family: Family, state: FamilyDelta, key: ServicePortKey) => renderedRules(family, state, key, clock);
  return await answerOffline({ ...invocation, rules });
}

async function renderedRules(
  family: Family,
  state: FamilyDelta,
  key: ServicePortKey,
  clock: Invocation["clock"],
): Promise<RuleDescription | undefined> {
  const { dryRun } = await import("../../backends/dry_run/mod.ts");
  const backend = await dryRun({ family, state, clock }, { read: undefined, onChange: () => {} });
  return backend.describe?.(key);
}
