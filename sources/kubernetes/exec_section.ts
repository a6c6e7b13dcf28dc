/** What a kubeconfig's user says about its credential plugin. */
import { dirname, isAbsolute, join } from "node:path";
import type { Material } from "./material.ts";

/** A credential plugin of a kubeconfig's user (`exec`, KEP-541). */
export interface ExecSection {
  /** Who it is for, for messages: `user "admin" in /etc/kubeconfig`. */
  readonly where: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly apiVersion: string;
  /** What a person does to get the plugin. */
  readonly installHint: string | undefined;
  /** What the plugin is told about the API server, where it asks to be told. */
  readonly cluster: ExecCluster | undefined;
}

/** The cluster, as it is given to a plugin that asks for it (`provideClusterInfo`). */
export interface ExecCluster {
  readonly server: string;
  readonly ca: Material | undefined;
  readonly proxyUrl: string | undefined;
  /** The cluster's extension for plugins, of any shape. */
  readonly config: unknown;
}

type Section = Readonly<Record<string, unknown>>;

/** The versions of the protocol that there are; v1alpha1 went with Kubernetes 1.24. */
const API_VERSIONS = ["client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"];

/**
 * Reads a user's `exec`. A command with a slash is relative to the kubeconfig's folder, as with client-go. `cluster` is
 * called where the plugin asks for it. Throws an Error that says what is missing or wrong, and where.
 */
export function readExecSection(path: string, user: string, exec: Section, cluster: () => ExecCluster): ExecSection {
  const where = `user "${user}" in ${path}`;
  const command = exec.command;
  if (typeof command !== "string" || command === "") throw new Error(`${where}: exec has no command`);
  const apiVersion = exec.apiVersion;
  if (typeof apiVersion !== "string" || !API_VERSIONS.includes(apiVersion)) {
    throw new Error(
      `${where}: exec has the apiVersion ${JSON.stringify(apiVersion) ?? "of nobody"}: must be ${
        API_VERSIONS.join(" or ")
      }`,
    );
  }
  if (exec.interactiveMode === "Always") {
    throw new Error(
      `${where}: the credential plugin ${JSON.stringify(command)} wants a person to answer it ` +
        "(interactiveMode Always), and there is none",
    );
  }
  return {
    where,
    command: command.includes("/") && !isAbsolute(command) ? join(dirname(path), command) : command,
    args: listOf(exec.args).map(String),
    env: Object.fromEntries(
      listOf(exec.env).filter(isSection).map(({ name, value }) => [String(name), String(value ?? "")]),
    ),
    apiVersion,
    installHint: typeof exec.installHint === "string" ? exec.installHint.trim() : undefined,
    cluster: exec.provideClusterInfo === true ? cluster() : undefined,
  };
}

/** The part of a cluster's `extensions` that plugins are given. */
export function execExtension(extensions: unknown): unknown {
  const ours = listOf(extensions).filter(isSection).find(({ name }) => name === "client.authentication.k8s.io/exec");
  return ours?.extension;
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function isSection(value: unknown): value is Section {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
