import { KUBERNETES_VERSION, loadYaml, VERSION } from "../platform/mod.ts";
import type { ModeDescription } from "../backends/contract/mod.ts";
import { readArguments } from "./arguments.ts";
import { alternative, type CommandSpec, flagValue, type GivenFlags, RUN } from "./command_spec.ts";
import { type Configuration, deepFreeze, type LoggingFormat, unwritable } from "./configuration.ts";
import type { ParseYaml } from "./file.ts";
import { ipvsSchedulers } from "./ipvs.ts";
import type { Settings } from "./kube_proxy_configuration.ts";
import { readSettings } from "./settings.ts";
import { RUN_FLAGS, runOptions } from "./run_flags.ts";
import { checkSourceFlags, readSource, runtimeSocketOf, sourceFlagsWithoutEffect } from "./source.ts";
import { type Decisions, validate } from "./validation.ts";

/** The parsed command line. Warnings are for the log, in the order in which they were found. */
export type CommandLine =
  | {
    readonly kind: "start";
    readonly command: string;
    readonly configuration: Configuration;
    /** The positional arguments, as many as the command takes. */
    readonly arguments: readonly string[];
    /** The values of all given flags, by name, including the command's own. */
    readonly flags: GivenFlags;
    readonly warnings: readonly string[];
  }
  | {
    readonly kind: "write-config";
    readonly path: string;
    /** The configuration to write (see `writeDocument`). */
    readonly configuration: Configuration;
    readonly warnings: readonly string[];
  }
  | { readonly kind: "version"; readonly text: string }
  /** The help of a command, or of the program if that is undefined (see `helpText`). */
  | { readonly kind: "help"; readonly command: CommandSpec | undefined }
  | {
    readonly kind: "errors";
    readonly exitCode: 2;
    readonly errors: readonly string[];
    readonly warnings: readonly string[];
  };

/** The program and the machine that a command line refers to. */
export interface CommandLineContext {
  /** Reads a file; throws if it cannot. */
  readonly readFile: (path: string) => string;
  readonly hostname: () => string;
  readonly kernelRelease: () => string;
  /** The proxy modes; the first is the default. */
  readonly modes: readonly ModeDescription[];
  /** Every command, including `run`, in the order of the help. */
  readonly commands: readonly CommandSpec[];
}

/** Calls `parseCommandLine`; loads the YAML parser if a configuration file is named. */
export async function readCommandLine(args: readonly string[], context: CommandLineContext): Promise<CommandLine> {
  const hasFile = args.some((arg) => arg.startsWith(`--${RUN_FLAGS.config.name}`));
  return parseCommandLine(args, context, hasFile ? (await loadYaml()).parseTree : undefined);
}

/**
 * Parses the arguments, `run` by default, and the configuration file that they name, which needs `parseYaml`. Reports all errors
 * at once.
 */
export function parseCommandLine(
  args: readonly string[],
  context: CommandLineContext,
  parseYaml?: ParseYaml,
): CommandLine {
  const { commands } = context;
  const named = args[0] !== undefined && !args[0].startsWith("-");
  if (!named && args.some((arg) => arg === "--help" || arg === "-h") || args[0] === "help" && args.length === 1) {
    return { kind: "help", command: undefined };
  }
  const name = !named ? RUN : args[0] === "help" ? args[1]! : args[0]!;
  const spec = commands.find((command) => command.name === name);
  if (spec === undefined) {
    const names = commands.map((command) => command.name);
    const hint = alternative(name, names) || "; see sluice --help for all commands";
    return { kind: "errors", exitCode: 2, errors: [`unknown command ${JSON.stringify(name)}${hint}`], warnings: [] };
  }
  const words = args[0] === "help" ? ["--help"] : args.slice(named ? 1 : 0);
  const { given, rest, help, version, errors: argumentErrors } = readArguments(words, spec);
  if (help) return { kind: "help", command: spec };
  if (version && argumentErrors.length === 0) {
    return {
      kind: "version",
      text: `Sluice ${VERSION} (behaves as kube-proxy ${KUBERNETES_VERSION}, Deno ${Deno.version.deno})`,
    };
  }
  const ofRun = new Map([...given].filter(([name]) => !spec.flags.some((flag) => flag.name === name)));
  const { settings, originOf, forms, errors: settingErrors, warnings: settingWarnings } = readSettings(
    ofRun,
    context.readFile,
    parseYaml,
  );
  const { decisions, problems, warnings: validationWarnings } = validate(
    settings,
    context.modes,
    () => ipvsSchedulers(context.kernelRelease(), context.readFile),
  );
  const warnings = [
    ...settingWarnings,
    ...validationWarnings.map(({ path, message }) => `${originOf(path)} ${message}`),
  ];
  const errors = [
    ...argumentErrors,
    ...settingErrors,
    ...problems.map(({ path, message }) => `${originOf(path)} ${message}`),
  ];
  const { source, errors: sourceErrors } = readSource(given);
  errors.push(...sourceErrors, ...checkSourceFlags(given, source));
  if (settings.site.name !== "" && source !== undefined && source.kind !== "kube") {
    errors.push(`${originOf("site.name")} needs the API server as the source (remove --source)`);
  }
  // As k8s.io/component-helpers' GetHostname does.
  const nodeName = (settings.hostnameOverride || context.hostname()).trim().toLowerCase();
  if (nodeName === "") errors.push(`${originOf("hostnameOverride")}: the node must have a name`);
  warnings.push(...sourceFlagsWithoutEffect(given));
  if (settings.nodeCondition && source !== undefined && source.kind !== "kube") {
    warnings.push(
      `${originOf("nodeCondition")} has no effect: only an API server as the source has Nodes with conditions`,
    );
  }
  if (errors.length > 0 || source === undefined) return { kind: "errors", exitCode: 2, errors, warnings };

  const configuration = deepFreeze({
    ...configurationOf(settings, decisions, ofRun),
    forms: { ...forms, clusterCIDR: settings.clusterCIDR },
    nodeName,
    source,
  });
  const path = flagValue(given, RUN_FLAGS.writeConfigTo);
  if (path) {
    return { kind: "write-config", path, configuration, warnings: [...warnings, ...unwritable(configuration)] };
  }
  return { kind: "start", command: name, configuration, arguments: rest, flags: given, warnings };
}

function configurationOf(
  settings: Settings,
  decisions: Decisions,
  given: GivenFlags,
): Omit<Configuration, "forms" | "nodeName" | "source"> {
  const { excludeCIDRs, ...decided } = decisions;
  const { syncPeriodMs, minSyncPeriodMs } = settings[decisions.modeDescription.settings.section];
  const masquerade = settings[decisions.modeDescription.settings.masqueradeSection];
  return {
    ...settings,
    ...decided,
    ...runOptions(given),
    ipvs: { ...settings.ipvs, excludeCIDRs },
    healthzBindAddress: isOff("healthz", given) ? undefined : decisions.healthzBindAddress,
    metricsBindAddress: isOff("metrics", given) ? undefined : decisions.metricsBindAddress,
    syncPeriodMs,
    minSyncPeriodMs,
    masqueradeAll: masquerade.masqueradeAll,
    masqueradeBit: masquerade.masqueradeBit,
    kubeconfig: settings.clientConnection.kubeconfig || undefined,
    runtimeSocket: runtimeSocketOf(given),
    verbosity: settings.logging.verbosity,
    loggingFormat: (settings.logging.format || undefined) as LoggingFormat | undefined,
  };
}

/** Only flags can turn a server off: an empty address in a file means the default (kube-proxy's flag documentation). */
function isOff(server: "healthz" | "metrics", given: GivenFlags): boolean {
  if (flagValue(given, RUN_FLAGS.config)) return false;
  return flagValue(given, RUN_FLAGS[`${server}Port`]) === 0 ||
    server === "metrics" && given.get("metrics-bind-address") === "";
}
