import { type Finding, problemFinding } from "../../core/problems/mod.ts";
import { boolean, type CommandSpec, option, text } from "../../config/mod.ts";
import type { Step } from "../installation/mod.ts";
import { findingsOf } from "./check.ts";
import type { Command, Invocation } from "./command.ts";
import { manualText } from "./man.ts";
import { runCommand } from "./run.ts";

/** Flag of install and uninstall: an alternative root folder. */
export const ROOT_FLAG = option("root", text(), "Root folder to use instead of /, for example of a mounted image.");

/** Flag of install and uninstall: print the steps only. */
export const DRY_RUN_FLAG = option("dry-run", boolean(), "Print what would be done without doing it.");

/** Flags of `run` that apply to one run only and are not installed. */
const ONE_RUN_FLAGS = ["config", "strict-config", "write-config-to", "init-only", "cleanup"];

/** Creates `sluice install`, which installs completions and the man page for these commands too. */
export function createInstallCommand(commands: () => readonly CommandSpec[]): Command {
  return {
    name: "install",
    summary: "Install this executable as a service of this node: program, systemd unit, configuration.",
    arguments: [],
    flags: [
      ROOT_FLAG,
      DRY_RUN_FLAG,
      option("now", boolean(), "Also start the service and enable it at boot, unless a check is red."),
    ],
    examples: [
      {
        line: "sluice install --kubeconfig /etc/sluice/kubeconfig --cluster-cidr 10.244.0.0/16",
        does: "writes the flags to /etc/sluice/config.yaml",
      },
      {
        line: "sluice install --config kube-proxy.yaml --now",
        does: "use kube-proxy's configuration and start the service",
      },
      { line: "sluice install --root /mnt/image --proxy-mode nftables", does: "install into the image of a node" },
    ],
    startsPrograms: true,
    async start(invocation) {
      const { flags, print } = invocation;
      const { runsFromSource } = await import("../../platform/mod.ts");
      if (runsFromSource()) {
        throw new Error("cannot install when running from source (build the executable with ./compile.sh first)");
      }
      const root = rootOf(invocation);
      const dryRun = flags.get("dry-run") === true;
      requireRoot(root, dryRun);
      const { install } = await import("../installation/mod.ts");
      const { files, configurationText, words } = await filesToInstall(invocation, commands());
      const steps = await install(files, { root, dryRun });
      print(stepsText(steps, root, dryRun));
      if (root !== "" || dryRun) {
        print(
          `\nNode checks skipped: ${dryRun ? "this is a dry run" : `they apply to the system that runs in ${root}`}.\n`,
        );
        return 0;
      }
      return await checkAndStart(invocation, steps, configurationText, words);
    },
  };
}

/** Checks the node, starts the service with --now unless a check is red, and prints the next steps. */
async function checkAndStart(
  invocation: Invocation,
  steps: readonly Step[],
  configurationText: string,
  words: readonly string[],
): Promise<0 | 1> {
  const { flags, print } = invocation;
  const { CONFIGURATION, PROGRAM } = await import("../installation/mod.ts");
  const { findingsText, worstOf } = await import("../../core/problems/mod.ts");
  const isKept = steps.some(({ path, decision }) => path === CONFIGURATION && decision === "keep");
  const findings = await checkInstalled(
    invocation,
    isKept ? Deno.readTextFileSync(CONFIGURATION) : configurationText,
    words,
  );
  print(`\n${findingsText(findings)}\n`);
  const isRed = worstOf(findings) === "red";
  const now = flags.get("now") === true;
  if (!now) {
    const fix = isRed ? `, fix the red checks (sluice check --config ${CONFIGURATION} repeats them)` : "";
    print(`Next: review ${CONFIGURATION}${fix}, then start the service:\n`);
    print("  systemctl daemon-reload && systemctl enable --now sluice\n");
  } else if (isRed) {
    print("Not started because a check is red. Fix it, then run sluice install --now again.\n");
  } else {
    if (!await startService(invocation)) {
      throw new Error("systemctl succeeded, but the service is not running (is this a chroot?)");
    }
    print("The service is running and starts at boot: systemctl status sluice, journalctl -u sluice\n");
  }
  print(`To uninstall: ${PROGRAM} uninstall --now --cleanup\n`);
  return isRed && now ? 1 : 0;
}

/** Returns the root folder without a trailing slash; empty for /. */
export function rootOf({ flags }: Pick<Invocation, "flags">): string {
  return (flags.get(ROOT_FLAG.name) as string | undefined ?? "").replace(/\/+$/, "");
}

/** Throws if installing to / without being root. */
export function requireRoot(root: string, dryRun: boolean): void {
  if (root !== "" || dryRun || Deno.uid() === 0) return;
  throw new Error("cannot write to /usr/local, /etc and /var/lib: not root (run with sudo, or try --dry-run)");
}

const DONE: Readonly<Record<Step["decision"], string>> = {
  write: "wrote",
  replace: "replaced",
  same: "unchanged",
  keep: "kept",
  remove: "removed",
};

const WOULD_DO: Readonly<Record<Step["decision"], string>> = {
  ...DONE,
  write: "would write",
  replace: "would replace",
  keep: "would keep",
  remove: "would remove",
};

/** Formats one line per file. */
export function stepsText(steps: readonly Step[], root: string, dryRun: boolean): string {
  const words = dryRun ? WOULD_DO : DONE;
  const width = Math.max(...Object.values(words).map((word) => word.length));
  return steps.map(({ path, decision }) =>
    `${words[decision].padEnd(width)}  ${root}${path}${decision === "keep" ? " (your edited file)" : ""}\n`
  ).join("");
}

async function filesToInstall({ flags }: Invocation, commands: readonly CommandSpec[]) {
  const { resolve } = await import("node:path");
  const { CONFIGURATION, filesOf, flagsBesideFile, unitWith, withFlags } = await import("../installation/mod.ts");
  const { shippedText } = await import("../../platform/mod.ts");
  const given = new Map(flags);
  const kubeconfig = flags.get("kubeconfig") as string | undefined;
  if (kubeconfig) given.set("kubeconfig", resolve(kubeconfig));
  const source = /^(file|state):(.+)$/s.exec(flags.get("source") as string | undefined ?? "");
  if (source) given.set("source", `${source[1]}:${resolve(source[2]!)}`);
  const template = flags.get("config") as string | undefined;
  const configurationText = template === undefined
    ? withFlags(shippedText("config.yaml"), given)
    : Deno.readTextFileSync(template);
  const isConfigured = configurationText !== shippedText("config.yaml");
  const words = flagsBesideFile(given, ONE_RUN_FLAGS);
  const files = filesOf({
    program: Deno.execPath(),
    unit: unitWith(shippedText("sluice.service"), words),
    configuration: configurationText,
    isConfigured: isConfigured && (template === undefined || resolve(template) !== CONFIGURATION),
    helpers: await helpersOf(commands),
  });
  return { files, configurationText, words };
}

/** Returns completions and the man page by path, in the folders for software that is not from a package. */
async function helpersOf(commands: readonly CommandSpec[]): Promise<Readonly<Record<string, string>>> {
  const { completionScript } = await import("../manual/mod.ts");
  return {
    "/usr/local/share/man/man8/sluice.8": await manualText(commands),
    "/usr/local/share/bash-completion/completions/sluice": completionScript("bash", commands),
    "/usr/local/share/zsh/site-functions/_sluice": completionScript("zsh", commands),
    "/usr/local/share/fish/vendor_completions.d/sluice.fish": completionScript("fish", commands),
  };
}

/** Checks the node for the installed configuration, which may contain more than the flags. */
async function checkInstalled(
  invocation: Invocation,
  configurationText: string,
  words: readonly string[],
): Promise<readonly Finding[]> {
  const { readCommandLine } = await import("../../config/mod.ts");
  const { CONFIGURATION } = await import("../installation/mod.ts");
  const { MODE_DESCRIPTIONS } = await import("../../backends/mod.ts");
  const line = await readCommandLine(["run", "--config", CONFIGURATION, ...words], {
    readFile: (path) => path === CONFIGURATION ? configurationText : Deno.readTextFileSync(path),
    hostname: () => Deno.hostname(),
    kernelRelease: () => Deno.osRelease(),
    modes: MODE_DESCRIPTIONS,
    commands: [runCommand],
  });
  if (line.kind === "start") return await findingsOf(invocation, line.configuration);
  const message = line.kind === "errors" ? line.errors.join("; ") : `has the effect of --${line.kind}`;
  return [problemFinding("configuration", "configuration-invalid", message, `edit ${CONFIGURATION}`)];
}

/** Starts the service. Returns whether it is running: in a chroot, systemctl ignores requests and reports success. */
async function startService({ clock, signal }: Invocation): Promise<boolean> {
  const { runSystemctl } = await import("./systemctl.ts");
  for (const args of [["daemon-reload"], ["enable", "sluice"], ["restart", "sluice"]]) {
    await runSystemctl(args, { clock, signal });
  }
  return (await runSystemctl(["is-active", "sluice"], { clock, signal })).trim() === "active";
}
