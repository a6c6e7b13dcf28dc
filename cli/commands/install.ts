import { boolean, type CommandSpec, option, text } from "../../config/mod.ts";
import type { Step } from "../installation/mod.ts";
import type { Finding } from "../../platform/mod.ts";
import { findingsOf } from "./check.ts";
import type { Command, Invocation } from "./command.ts";
import { manualText } from "./man.ts";
import { runCommand } from "./run.ts";

/** Where an installation goes; also that which is taken away. */
export const ROOT_FLAG = option("root", text(), "The folder that stands for /: of an image, for instance.");

/** Whether an installation is only spoken of. */
export const DRY_RUN_FLAG = option("dry-run", boolean(), "Say what would be done, and do nothing.");

/** Flags of `run` that say what one run does, which no installation lasts for. */
const OF_ONE_RUN = ["config", "strict-config", "write-config-to", "init-only", "cleanup"];

/** Puts the proxy on this node as a service, with completions and a page of the manual for these commands. */
export function createInstallCommand(commands: () => readonly CommandSpec[]): Command {
  return {
    name: "install",
    summary: "Install this executable as a service of this node: program, unit, configuration.",
    arguments: [],
    flags: [
      ROOT_FLAG,
      DRY_RUN_FLAG,
      option("now", boolean(), "Start the service, too, and with every boot; not where the check finds something red."),
    ],
    examples: [
      {
        line: "sluice install --kubeconfig /etc/sluice/kubeconfig --cluster-cidr 10.244.0.0/16",
        does: "flags go into /etc/sluice/config.yaml",
      },
      {
        line: "sluice install --config kube-proxy.yaml --now",
        does: "with kube-proxy's own configuration, and start it",
      },
      { line: "sluice install --root /mnt/image --proxy-mode nftables", does: "into the image of a node" },
    ],
    startsPrograms: true,
    async start(invocation) {
      const { flags, print } = invocation;
      const { runsFromSource } = await import("../../platform/mod.ts");
      if (runsFromSource()) {
        throw new Error(
          "sluice install copies the executable, and this runs from source: ./compile.sh makes dist/sluice",
        );
      }
      const root = rootOf(invocation);
      const dryRun = flags.get("dry-run") === true;
      requireRoot(root, dryRun);
      const { install } = await import("../installation/mod.ts");
      const { files, configurationText, words } = await filesToInstall(invocation, commands());
      const steps = await install(files, { root, dryRun });
      print(stepsText(steps, root, dryRun));
      if (root !== "" || dryRun) {
        print(`\nThe node was not checked: ${dryRun ? "nothing was done" : `that is for what runs in ${root}`}.\n`);
        return 0;
      }
      const { PROGRAM, CONFIGURATION } = await import("../installation/mod.ts");
      const isKept = steps.some(({ path, decision }) => path === CONFIGURATION && decision === "keep");
      const findings = await checkInstalled(
        invocation,
        isKept ? Deno.readTextFileSync(CONFIGURATION) : configurationText,
        words,
      );
      const { findingsText, worstOf } = await import("../../platform/mod.ts");
      print(`\n${findingsText(findings)}\n`);
      const isRed = worstOf(findings) === "red";
      if (flags.get("now") !== true) {
        print(
          `Next: look through ${CONFIGURATION}${
            isRed ? ", fix what is red (sluice check --config does this again)" : ""
          }, ` +
            `then start it:\n  systemctl daemon-reload && systemctl enable --now sluice\n`,
        );
      } else if (isRed) {
        print("Not started because a check is red. Fix it, then run sluice install --now again.\n");
      } else {
        const runs = await startService(invocation);
        if (!runs) {
          throw new Error("systemctl did what it was asked for, and the service does not run: is this a chroot?");
        }
        print("It runs, and will with every boot: systemctl status sluice, journalctl -u sluice\n");
      }
      print(`To undo it: ${PROGRAM} uninstall --now --cleanup\n`);
      return isRed && flags.get("now") === true ? 1 : 0;
    },
  };
}

/** The folder that stands for /, without a slash at the end. */
export function rootOf({ flags }: Pick<Invocation, "flags">): string {
  return (flags.get(ROOT_FLAG.name) as string | undefined ?? "").replace(/\/+$/, "");
}

/** Throws where this process may not write to the system that is meant. */
export function requireRoot(root: string, dryRun: boolean): void {
  if (root !== "" || dryRun || Deno.uid() === 0) return;
  throw new Error("this writes to /usr/local, /etc and /var/lib: run it as root (sudo), or try --dry-run");
}

const SAYS: Readonly<Record<Step["decision"], string>> = {
  write: "wrote",
  replace: "replaced",
  same: "as it was",
  keep: "kept",
  remove: "removed",
};

const WOULD_SAY: Readonly<Record<Step["decision"], string>> = {
  ...SAYS,
  write: "would write",
  replace: "would replace",
  keep: "would keep",
  remove: "would remove",
};

/** What was done, a line for each file. */
export function stepsText(steps: readonly Step[], root: string, dryRun: boolean): string {
  const words = dryRun ? WOULD_SAY : SAYS;
  const width = Math.max(...Object.values(words).map((word) => word.length));
  return steps.map(({ path, decision }) =>
    `${words[decision].padEnd(width)}  ${root}${path}${
      decision === "keep" ? ": it was there, and is not what would be written" : ""
    }\n`
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
  const words = flagsBesideFile(given, OF_ONE_RUN);
  const files = filesOf({
    program: Deno.execPath(),
    unit: unitWith(shippedText("sluice.service"), words),
    configuration: configurationText,
    isConfigured: isConfigured && (template === undefined || resolve(template) !== CONFIGURATION),
    helpers: await helpersOf(commands),
  });
  return { files, configurationText, words };
}

/** Where shells and man look for what was not installed by a package. */
async function helpersOf(commands: readonly CommandSpec[]): Promise<Readonly<Record<string, string>>> {
  const { completionScript } = await import("../manual/mod.ts");
  return {
    "/usr/local/share/man/man8/sluice.8": await manualText(commands),
    "/usr/local/share/bash-completion/completions/sluice": completionScript("bash", commands),
    "/usr/local/share/zsh/site-functions/_sluice": completionScript("zsh", commands),
    "/usr/local/share/fish/vendor_completions.d/sluice.fish": completionScript("fish", commands),
  };
}

/** Checks the node for the configuration that is now installed, which says more than the flags do. */
async function checkInstalled(
  invocation: Invocation,
  configurationText: string,
  words: readonly string[],
): Promise<readonly Finding[]> {
  const { readCommandLine } = await import("../../config/mod.ts");
  const { CONFIGURATION } = await import("../installation/mod.ts");
  const { MODES } = await import("../../backends/mod.ts");
  const line = await readCommandLine(["run", "--config", CONFIGURATION, ...words], {
    readFile: (path) => path === CONFIGURATION ? configurationText : Deno.readTextFileSync(path),
    hostname: () => Deno.hostname(),
    kernelRelease: () => Deno.osRelease(),
    builtModes: MODES,
    commands: [runCommand],
  });
  if (line.kind === "start") return await findingsOf(invocation, line.configuration);
  const message = line.kind === "errors" ? line.errors.join("; ") : `asks for ${line.kind}`;
  return [{ name: "configuration", verdict: "red", message, fix: `edit ${CONFIGURATION}` }];
}

/** Whether the service then runs: in a chroot, systemctl ignores what it is asked for and calls it a success. */
async function startService({ clock, signal }: Invocation): Promise<boolean> {
  const { runSystemctl } = await import("./service.ts");
  for (const args of [["daemon-reload"], ["enable", "sluice"], ["restart", "sluice"]]) {
    await runSystemctl(args, { clock, signal });
  }
  return (await runSystemctl(["is-active", "sluice"], { clock, signal })).trim() === "active";
}
