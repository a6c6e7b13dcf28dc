/** Credentials from a kubeconfig's plugin program, by the protocol of client.authentication.k8s.io (KEP-541). */
import { isRawObject, type RawObject } from "../../core/objects/mod.ts";
import { type Clock, dirname, pathIn, type RunProgram, unlessAborted } from "../../platform/mod.ts";
import {
  createMaterialReader,
  type ExecCluster,
  type ExecSection,
  type PluginCredentials,
  type RunningPlugin,
} from "./access.ts";

/** The supported versions of the protocol; Kubernetes 1.24 removed v1alpha1. */
const API_VERSIONS = ["client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"];

/**
 * Reads a user's `exec`. As in client-go, a command with a slash is relative to the kubeconfig's folder. Calls `cluster` if the
 * plugin requests it. Throws an Error that names the place and the problem.
 */
export function readExecSection(path: string, user: string, exec: RawObject, cluster: () => ExecCluster): ExecSection {
  const where = `user "${user}" in ${path}`;
  const command = exec.command;
  if (typeof command !== "string" || command === "") throw new Error(`${where}: exec has no command`);
  const apiVersion = exec.apiVersion;
  if (typeof apiVersion !== "string" || !API_VERSIONS.includes(apiVersion)) {
    const given = JSON.stringify(apiVersion) ?? "undefined";
    throw new Error(`${where}: exec has apiVersion ${given}: must be ${API_VERSIONS.join(" or ")}`);
  }
  if (exec.interactiveMode === "Always") {
    const plugin = `the credential plugin ${JSON.stringify(command)}`;
    throw new Error(`${where}: ${plugin} needs an interactive terminal (interactiveMode Always)`);
  }
  return {
    where,
    command: command.includes("/") ? pathIn(dirname(path), command) : command,
    args: listOf(exec.args).map(String),
    env: Object.fromEntries(
      listOf(exec.env).filter(isRawObject).map(({ name, value }) => [String(name), String(value ?? "")]),
    ),
    apiVersion,
    installHint: typeof exec.installHint === "string" ? exec.installHint.trim() : undefined,
    cluster: exec.provideClusterInfo === true ? cluster() : undefined,
  };
}

/** The entry of a cluster's `extensions` that is passed to plugins. */
export function execExtension(extensions: unknown): unknown {
  const ours = listOf(extensions).filter(isRawObject).find(({ name }) => name === "client.authentication.k8s.io/exec");
  return ours?.extension;
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** The timeout of a plugin, in milliseconds; some call a cloud API. */
const PLUGIN_TIMEOUT_MS = 30_000;

interface Held {
  readonly credentials: PluginCredentials;
  /** In milliseconds since 1970; Infinity (until the server refuses them) if the plugin does not specify it. */
  readonly expiresAtMs: number;
}

/** Runs the plugin if there are no credentials or they have expired. */
export function execPlugin(section: ExecSection, runProgram: RunProgram, clock: Clock): RunningPlugin {
  let held: Held | undefined;
  // Concurrent requests share one run of the plugin.
  let pending: Promise<Held> | undefined;
  return {
    async credentials(signal) {
      if (held === undefined || held.expiresAtMs <= clock.now()) {
        pending ??= run(section, runProgram).finally(() => {
          pending = undefined;
        });
        held = await unlessAborted(pending, signal);
      }
      return held.credentials;
    },
    forget() {
      held = undefined;
    },
  };
}

async function run(section: ExecSection, runProgram: RunProgram): Promise<Held> {
  const { command, args, env } = section;
  try {
    const { exitCode, stdout, stderr } = await runProgram({
      program: command,
      args,
      env: { ...env, KUBERNETES_EXEC_INFO: execInfo(section) },
      timeoutMs: PLUGIN_TIMEOUT_MS,
    });
    if (exitCode !== 0) throw new Error(`exit status ${exitCode}: ${stderr.trim() || "no output on standard error"}`);
    return read(stdout, section.apiVersion);
  } catch (error) {
    const hint = section.installHint ? ` (${section.installHint})` : "";
    const reason = error instanceof Error ? error.message : String(error);
    throw new Error(`the credential plugin ${JSON.stringify(command)} of ${section.where} failed: ${reason}${hint}`, {
      cause: error,
    });
  }
}

/** The plugin's input: that it is not interactive, and the cluster's data if requested. */
function execInfo({ apiVersion, cluster }: ExecSection): string {
  const ca = cluster?.ca && createMaterialReader(cluster.ca).read();
  const about = cluster && {
    server: cluster.server,
    "tls-server-name": cluster.serverName,
    "certificate-authority-data": ca && btoa(ca),
    "proxy-url": cluster.proxyUrl,
    config: cluster.config,
  };
  return JSON.stringify({ kind: "ExecCredential", apiVersion, spec: { cluster: about, interactive: false } });
}

/** Reads an ExecCredential. Errors never quote it, because it may hold a secret. */
function read(text: string, apiVersion: string): Held {
  const given = parse(text);
  if (given.kind !== "ExecCredential") throw new Error("its output is not an ExecCredential");
  if (given.apiVersion !== apiVersion) {
    throw new Error(`its ExecCredential does not have the requested apiVersion ${apiVersion}`);
  }
  const status = given.status;
  if (!isRawObject(status)) throw new Error("its ExecCredential has no status");
  const [token, certificate, key] = ["token", "clientCertificateData", "clientKeyData"].map((name) => {
    const value = status[name];
    return typeof value === "string" && value !== "" ? value : undefined;
  });
  if ((certificate === undefined) !== (key === undefined)) {
    throw new Error(
      `its ExecCredential has a client ${key ? "key" : "certificate"} but no ${key ? "certificate" : "key"}`,
    );
  }
  if (token === undefined && certificate === undefined) {
    throw new Error("its ExecCredential has neither a token nor a client certificate");
  }
  return {
    credentials: {
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      ...(certificate === undefined ? {} : { certificate, key }),
    },
    expiresAtMs: expiry(status.expirationTimestamp),
  };
}

function parse(text: string): RawObject {
  try {
    const value: unknown = JSON.parse(text);
    if (isRawObject(value)) return value;
  } catch {
    // The parser's message would quote the text.
  }
  throw new Error("it did not print an ExecCredential in JSON on standard output");
}

function expiry(timestamp: unknown): number {
  if (timestamp === undefined || timestamp === null) return Infinity;
  const atMs = typeof timestamp === "string" ? Date.parse(timestamp) : NaN;
  if (Number.isNaN(atMs)) throw new Error("the expirationTimestamp of its ExecCredential is not a time");
  return atMs;
}
