/** Credentials from a program that a kubeconfig names, by the protocol of client.authentication.k8s.io (KEP-541). */
import { type Clock, type RunProgram, unlessAborted } from "../../platform/mod.ts";
import type { ExecSection } from "./exec_section.ts";
import { createMaterialReader } from "./material.ts";
import type { PluginCredentials, RunningPlugin } from "./plugin.ts";

/** How long a plugin may take: some ask a cloud, none may keep the API server waiting for ever. */
const PLUGIN_TIMEOUT_MS = 30_000;

interface Held {
  readonly credentials: PluginCredentials;
  /** In milliseconds since 1970; until the server refuses them where the plugin does not say. */
  readonly expiresAtMs: number;
}

/** Asks the plugin when there are no credentials, or none that hold any more; `runProgram` starts it. */
export function execPlugin(section: ExecSection, runProgram: RunProgram, clock: Clock): RunningPlugin {
  let held: Held | undefined;
  // Several requests that start together share one run of the plugin.
  let asking: Promise<Held> | undefined;
  return {
    async credentials(signal) {
      if (held === undefined || held.expiresAtMs <= clock.now()) {
        asking ??= ask(section, runProgram).finally(() => {
          asking = undefined;
        });
        held = await unlessAborted(asking, signal);
      }
      return held.credentials;
    },
    forget() {
      held = undefined;
    },
  };
}

async function ask(section: ExecSection, runProgram: RunProgram): Promise<Held> {
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

/** What a plugin is told: that nobody can answer questions and, where it asks for that, which cluster it is for. */
function execInfo({ apiVersion, cluster }: ExecSection): string {
  const ca = cluster?.ca && createMaterialReader(cluster.ca).read();
  const about = cluster && {
    server: cluster.server,
    "certificate-authority-data": ca && btoa(ca),
    "proxy-url": cluster.proxyUrl,
    config: cluster.config,
  };
  return JSON.stringify({ kind: "ExecCredential", apiVersion, spec: { cluster: about, interactive: false } });
}

/** Reads an ExecCredential. What is wrong with it is said without a word of it: it may hold a secret. */
function read(text: string, apiVersion: string): Held {
  const given = parse(text);
  if (given.kind !== "ExecCredential") throw new Error("it did not write an ExecCredential");
  if (given.apiVersion !== apiVersion) {
    throw new Error(`it wrote an ExecCredential of another apiVersion than ${apiVersion}, which was asked for`);
  }
  const status = given.status;
  if (!isObject(status)) throw new Error("its ExecCredential has no status");
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

function parse(text: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text);
    if (isObject(value)) return value;
  } catch {
    // The parser's own message would quote the text.
  }
  throw new Error("it did not write JSON with an ExecCredential on standard output");
}

function expiry(timestamp: unknown): number {
  if (timestamp === undefined || timestamp === null) return Infinity;
  const atMs = typeof timestamp === "string" ? Date.parse(timestamp) : NaN;
  if (Number.isNaN(atMs)) throw new Error("the expirationTimestamp of its ExecCredential is no time");
  return atMs;
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
