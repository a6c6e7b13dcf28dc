import type { Asker } from "../../answers/control/mod.ts";
import {
  createProblemBoard,
  type Finding,
  findingsText,
  type ProblemCode,
  problemFinding,
  worstOf,
} from "../../core/problems/mod.ts";
import { boolean, type Configuration, featurePermissions, option, watchedKinds } from "../../config/mod.ts";
import type { ProxyMode } from "../../core/model/mod.ts";
import { errorText, machineCores, networkNamespace, plural, silentLogger, withDeadline } from "../../platform/mod.ts";
import { type Command, type Invocation, printAs, TEXT_OR_JSON, toolRunner } from "./command.ts";
import { LISTEN_FLAGS } from "./serve.ts";

/** `sluice check`: preflight checks. */
export const checkCommand: Command = {
  name: "check",
  summary:
    "Check whether this node and its API access meet the requirements of the proxy, or of a server; changes nothing.",
  flags: [
    ...TEXT_OR_JSON,
    option("strict", boolean(), "Exit with status 1 for yellow results too, not only for red ones."),
    option("serve", boolean(), "Check what sluice serve needs instead: its ports, certificates and source."),
    ...LISTEN_FLAGS,
  ],
  installed: { part: "configuration", unless: ["serve"] },
  exitStatuses: { 0: "no check is red", 1: "a check is red, or yellow with --strict, or the command failed" },
  examples: {
    "sluice check": "the installed configuration",
    "sluice check --proxy-mode nftables --source file:services.yaml": "only the node, for another mode",
    [
      "sluice check --serve --kubeconfig kubeconfig --listen tcp://:12090 --listen-tls-crt relay.pem " +
      "--listen-tls-key relay.key"
    ]: "a server before it starts, with its own flags",
  },
  startsPrograms: true,
  async start(invocation) {
    const { flags } = invocation;
    const findings = flags.get("serve") === true
      ? await (await import("./check_serve.ts")).findingsOfServe(invocation)
      : await findingsOf(invocation, invocation.configuration);
    const worst = worstOf(findings);
    const isColoured = Deno.stdout.isTerminal() && !Deno.env.get("NO_COLOR");
    printAs(invocation, { verdict: worst, findings }, () => findingsText(findings, isColoured));
    return worst === "red" || worst === "yellow" && flags.get("strict") === true ? 1 : 0;
  },
};

/** Runs all checks for a proxy with this configuration. */
export async function findingsOf(
  { clock, logger, signal, runProgram }: Pick<Invocation, "clock" | "logger" | "signal" | "runProgram">,
  configuration: Configuration,
): Promise<readonly Finding[]> {
  const { examineNode } = await import("../../backends/preflight/mod.ts");
  const { balanceOptions, conntrackSettings, ipvsSettings } = await import("../../config/mod.ts");
  const { findMode, MODES } = await import("../../backends/mod.ts");
  const { mode, source } = configuration;
  const wanted = conntrackSettings(configuration.conntrack, await machineCores());
  const node = await examineNode({
    mode: findMode(mode),
    modes: MODES,
    ipvs: ipvsSettings("IPv4", configuration),
    runner: await toolRunner({ clock, signal }),
    uid: Deno.uid(),
    kernel: Deno.osRelease(),
    ports: portsOf(configuration),
    conntrackMax: wanted.find(({ name }) => name === "net.netfilter.nf_conntrack_max")?.value,
    running: await runningMode(configuration.controlSocket, { clock, signal, networkNamespace: networkNamespace() }),
    settings: { ...balanceOptions(configuration).byDefault, nodePortAddresses: configuration.nodePortAddresses },
  });
  if (source.kind !== "kube") return [...node, ...await examineSource(configuration, { clock, signal })];
  const { examineApi } = await import("../../sources/preflight/mod.ts");
  const kinds = watchedKinds(configuration), permissions = featurePermissions(configuration);
  return [...node, ...await examineApi({ ...configuration, kinds, permissions, clock, logger, signal, runProgram })];
}

const SOURCE_MS = 10_000;

const OF_MANIFESTS: readonly ProblemCode[] = ["object-invalid", "object-duplicated"];

/** Whether a source other than the API server can be read, and the mistakes in its objects. */
export async function examineSource(
  configuration: Configuration,
  { clock, signal }: Pick<Invocation, "clock" | "signal">,
): Promise<readonly Finding[]> {
  const { answerOffline } = await import("../../answers/mod.ts");
  const { sourceText } = await import("../../config/mod.ts");
  const { source } = configuration, name = "source", text = sourceText(source);
  const late = new Error(`no complete state within ${SOURCE_MS / 1000} s`);
  try {
    const rules = () => Promise.resolve(undefined);
    const problems = createProblemBoard(clock, silentLogger);
    const reports = { logger: silentLogger, onProblems: problems.report, onPlanned: problems.report };
    const answers = await withDeadline(
      clock,
      SOURCE_MS,
      late,
      signal,
      (signal) => answerOffline({ configuration, clock, ...reports, signal, rules }),
    );
    const ports = new Set((await answers.services("")).map(({ name }) => name));
    const mistakes = problems.current().filter(({ code }) => OF_MANIFESTS.includes(code));
    return [
      { name, verdict: "green", message: `${text} has ${plural(ports.size, "service port")}` },
      ...mistakes.map(({ code, subject, detail }) => problemFinding(name, code, `${subject}: ${detail}`)),
    ];
  } catch (error) {
    signal.throwIfAborted();
    const code = source.kind === "grpc" ? "source-unreachable" : "file-unreadable";
    return [problemFinding(name, code, `${text}: ${errorText(error)}`)];
  }
}

function portsOf({ healthzBindAddress, metricsBindAddress }: Configuration): readonly number[] {
  return [healthzBindAddress, metricsBindAddress].filter((address) => address !== undefined)
    .map((address) => Number(address.slice(address.lastIndexOf(":") + 1)));
}

/** Returns the mode of the Sluice that listens on the control socket; undefined if none does. */
async function runningMode(controlSocket: string | undefined, asker: Asker): Promise<ProxyMode | undefined> {
  if (controlSocket === undefined) return undefined;
  const { connectToProxy } = await import("../../answers/control/mod.ts");
  try {
    return (await (await connectToProxy(controlSocket, asker)).status()).mode;
  } catch {
    // No proxy runs here, or it belongs to another user.
    return undefined;
  }
}
