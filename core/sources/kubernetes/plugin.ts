import { dirname } from "node:path";
import type { Clock } from "../../../platform/clock.ts";
import { unlessAborted } from "../../../platform/unless_aborted.ts";
import type { RunProgram } from "../../run_program.ts";
import { execPlugin } from "./exec_plugin.ts";
import type { ExecSection } from "./exec_section.ts";

/** A user of a kubeconfig that gets its credentials from elsewhere: a program, or a provider that client-node knows. */
export type CredentialPlugin =
  | { readonly kind: "exec"; readonly exec: ExecSection }
  | {
    readonly kind: "auth-provider";
    /** Path of the kubeconfig file, for its relative paths. */
    readonly path: string;
    /** The file's text. */
    readonly text: string;
  };

/** What a plugin gave. */
export interface PluginCredentials {
  /** The Authorization header. */
  readonly authorization?: string;
  /** Client certificate and key (PEM). */
  readonly certificate?: string;
  readonly key?: string;
}

/** A plugin at work. */
export interface RunningPlugin {
  /** What it gave last, or gives now where that has expired. Rejects with why it gives nothing. */
  credentials(signal: AbortSignal): Promise<PluginCredentials>;
  /** The server refused what it gave: the next call asks it anew. */
  forget(): void;
}

/** Gets a plugin to work. */
export function startPlugin(plugin: CredentialPlugin, runProgram: RunProgram, clock: Clock): RunningPlugin {
  return plugin.kind === "exec" ? execPlugin(plugin.exec, runProgram, clock) : authProvider(plugin);
}

/**
 * An auth-provider, which @kubernetes/client-node knows, in this isolate. The package is loaded at the first use only: it
 * costs tens of megabytes that a plain kubeconfig does not need. A provider that would start a program fails: that is
 * for `exec`.
 */
function authProvider(plugin: CredentialPlugin & { kind: "auth-provider" }): RunningPlugin {
  let loaded: Promise<() => Promise<PluginCredentials>> | undefined;
  let asking: Promise<PluginCredentials> | undefined;
  return {
    credentials(signal) {
      loaded ??= loadClientNode(plugin);
      asking ??= loaded.then((ask) => ask()).finally(() => {
        asking = undefined;
      });
      return unlessAborted(asking, signal);
    },
    forget() {
      loaded = undefined;
    },
  };
}

async function loadClientNode(
  { path, text }: CredentialPlugin & { kind: "auth-provider" },
): Promise<() => Promise<PluginCredentials>> {
  const { KubeConfig } = await import("@kubernetes/client-node");
  const config = new KubeConfig();
  config.loadFromString(text);
  config.makePathsAbsolute(dirname(path));
  const user = config.getCurrentUser();
  return async () => {
    const options: { headers?: Record<string, unknown>; cert?: unknown; key?: unknown } = { headers: {} };
    try {
      await config.applyToHTTPSOptions(options as Parameters<typeof config.applyToHTTPSOptions>[0]);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      throw new Error(`the auth-provider of user "${user?.name}" in ${path} failed: ${reason.trim()}`, {
        cause: error,
      });
    }
    const { Authorization: authorization } = options.headers ?? {};
    return {
      ...(typeof authorization === "string" ? { authorization } : {}),
      ...(options.cert === undefined ? {} : { certificate: String(options.cert) }),
      ...(options.key === undefined ? {} : { key: String(options.key) }),
    };
  };
}
