import type { ExecSection } from "./exec_section.ts";

/** A user of a kubeconfig that gets its credentials from elsewhere: a program, or a provider that client-node knows. */
export type CredentialPlugin =
  | { readonly kind: "exec"; readonly exec: ExecSection }
  | ({ readonly kind: "auth-provider" } & AuthProviderSection);

/** A kubeconfig whose current user has an auth-provider. */
export interface AuthProviderSection {
  /** Path of the kubeconfig file, for its relative paths. */
  readonly path: string;
  /** The file's text. */
  readonly text: string;
}

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
