/**
 * Runs the sessions of README.md and docs/ in a lab of network namespaces, with a proxy that serves deploy/example/, and compares
 * what they print with what the pages show.
 *
 *     deno task test:pages [PAGE…]
 *     deno task test:pages --write     # writes the new output into the pages
 *
 * A line `…` in a page stands for any lines. A marker `<!-- session: NAME -->` before a block selects a scene; `not run: REASON` leaves it out.
 */
import { createLab, type Lab, type Namespace } from "../../demo/lab.ts";
import { ISOLATED_PROGRAMS } from "../../demo/isolate.ts";
import { program, startSluice } from "../../demo/sluice.ts";
import { systemClock } from "../../platform/clock.ts";
import { runIsolated } from "../isolated.ts";
import { rewritten, same, type Session, sessionsOf, withoutEmptyEnd } from "./page.ts";

const ROOT = new URL("../../", import.meta.url).pathname;
const EXAMPLE = `${ROOT}deploy/example`;
/** Further manifests of a page, by its name. */
const MANIFESTS = `${ROOT}tests/pages/manifests/`;
/** The folder that the proxy serves. */
const SERVED = "/run/pages-served";
const BIN = "/run/pages-bin";
/** A proxy, and what happens around it while its sessions run. */
interface Scene {
  readonly mode: "iptables" | "nftables";
  /** Lines of its configuration file beside those of every scene. */
  readonly configuration?: string;
  /** A script that runs in a namespace beside the sessions, from before the first one on. */
  readonly beside?: { readonly namespace: Namespace; readonly script: string };
  /** A command that succeeds on the node once the sessions may start. */
  readonly until?: string;
  /** A command that ends on the node what the script has left. */
  readonly after?: string;
}

const DEFAULT_SCENE = "iptables";
/** The scenes, by the names that markers use. */
const SCENES: Readonly<Record<string, Scene>> = {
  iptables: { mode: "iptables" },
  nftables: { mode: "nftables" },
  "foreign chain": {
    mode: "nftables",
    configuration: "canary: { enabled: true }",
    beside: {
      namespace: "node",
      script:
        "nft 'add table ip firewall; add chain ip firewall out { type filter hook output priority 0; policy drop; }'",
    },
    until: "sluice status -o json | grep -q packets-not-flowing",
    after: "nft delete table ip firewall",
  },
  traffic: {
    mode: "nftables",
    configuration: "traffic: { metrics: true }",
    beside: { namespace: "pod-1", script: connections("10.96.0.10", "10.96.0.50") },
    until: "sluice get services -o json | grep -q no-endpoints",
  },
  connections: {
    mode: "nftables",
    beside: { namespace: "outside", script: connections("198.51.100.20") },
  },
  "lock holder": {
    mode: "iptables",
    beside: { namespace: "node", script: "exec flock --close /run/xtables.lock sleep 60" },
    until: "fuser -s /run/xtables.lock",
  },
};
/** The lines of commands about their source on standard error, which pages leave out. */
const ABOUT_THE_SOURCE = /^sluice: (answered by|using|no proxy|the proxy at)/;
/** Ends the output of a command. */
const END = "\x1e";

/** A script that opens connections to port 80 of addresses, again and again. */
function connections(...addresses: readonly string[]): string {
  const each = addresses.map((address) => `curl -s -m 1 http://${address}/`).join("; ");
  return `while :; do ${each}; sleep 0.2; done`;
}

/** The pages, relative to the project's folder. */
function pages(): readonly string[] {
  const docs = [...Deno.readDirSync(`${ROOT}docs`)].filter(({ name }) => name.endsWith(".md"));
  return ["README.md", ...docs.map(({ name }) => `docs/${name}`).sort()];
}

/** Runs the commands of a session in one shell on the node, and resolves with the output of each. */
async function outputsOf(lab: Lab, { steps }: Session): Promise<readonly (readonly string[])[]> {
  const script = steps.map(({ command }) => `${command}\nstatus=$?; printf '\\036'; (exit $status)`).join("\n");
  const child = lab.start("node", ["timeout", "60", "sh", "-c", script], {
    cwd: ROOT,
    env: { PATH: `${BIN}:${Deno.env.get("PATH")}` },
    stdout: "piped",
    stderr: "piped",
  });
  const { stdout, stderr } = await child.output();
  const text = new TextDecoder();
  const parts = text.decode(stdout).split(END).slice(0, steps.length);
  const errors = text.decode(stderr).split("\n").filter((line) => !ABOUT_THE_SOURCE.test(line)).join("\n");
  // Standard error belongs to the last command: sessions with several commands print none.
  const ended = parts.map((part, i) => i === parts.length - 1 ? part + errors : part);
  return steps.map((_, i) => withoutEmptyEnd((ended[i] ?? "").split("\n")));
}

/** Fills the folder that the proxy serves: with the example, and the manifests of a page if it has some. */
function serveManifestsOf(page: string): void {
  Deno.mkdirSync(SERVED, { recursive: true });
  for (const { name } of Deno.readDirSync(SERVED)) Deno.removeSync(`${SERVED}/${name}`);
  for (const { name } of Deno.readDirSync(EXAMPLE)) Deno.copyFileSync(`${EXAMPLE}/${name}`, `${SERVED}/${name}`);
  const own = `${page.replace(/^.*\//, "").replace(/\.md$/, "")}.yaml`;
  if ([...Deno.readDirSync(MANIFESTS)].some(({ name }) => name === own)) {
    Deno.copyFileSync(MANIFESTS + own, `${SERVED}/${own}`);
  }
}

/** Runs the sessions of a page that are of a scene. */
async function runPage(
  lab: Lab,
  { mode, configuration = "", beside, until, after }: Scene,
  sessions: readonly Session[],
) {
  const outputs = new Map<Session, readonly (readonly string[])[]>();
  const file = "/run/pages-config.yaml";
  Deno.writeTextFileSync(
    file,
    `apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: ${mode}\n` +
      `clusterCIDR: 10.244.0.0/16,fd00:10:244::/48\nconntrack: { maxPerCore: 0 }\n${configuration}\n`,
  );
  const sluice = startSluice(lab, SERVED, systemClock, file);
  let other: Deno.ChildProcess | undefined;
  try {
    await sluice.ready();
    // The rules of the proxy before serve, too, until this one has written its own.
    await lab.run("node", [`${BIN}/sluice`, "status", "--wait", "60s"]);
    if (beside !== undefined) {
      const options = { stdout: "null", stderr: "null" } as const;
      other = lab.start(beside.namespace, ["sh", "-c", beside.script], options);
    }
    if (until !== undefined) {
      const wait = `while ! { ${until}; }; do sleep 0.2; done`;
      await lab.run("node", ["env", `PATH=${BIN}:${Deno.env.get("PATH")}`, "timeout", "60", "sh", "-c", wait]);
    }
    for (const session of sessions) outputs.set(session, await outputsOf(lab, session));
  } finally {
    if (other !== undefined) await ended(other);
    if (after !== undefined) await lab.run("node", ["sh", "-c", after]);
    await sluice.stop();
  }
  return outputs;
}

/** Ends a script beside the sessions, which may have ended by itself. */
async function ended(child: Deno.ChildProcess): Promise<void> {
  try {
    child.kill("SIGKILL");
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
  }
  await child.status;
}

async function inside(args: readonly string[]): Promise<number> {
  const isWriting = args.includes("--write"), named = args.filter((arg) => !arg.startsWith("--"));
  Deno.mkdirSync(BIN);
  const words = program().map((word) => `'${word}'`).join(" ");
  Deno.writeTextFileSync(`${BIN}/sluice`, `#!/bin/sh\nexec ${words} "$@"\n`, { mode: 0o755 });
  const lab = await createLab();
  let passed = 0, failed = 0;
  for (const page of named.length > 0 ? named : pages()) {
    const text = Deno.readTextFileSync(ROOT + page), sessions = sessionsOf(text);
    serveManifestsOf(page);
    const byScene = Map.groupBy(
      sessions.filter(({ marker }) => !marker?.startsWith("not run: ")),
      ({ marker }) => marker ?? DEFAULT_SCENE,
    );
    const found = new Map<Session, readonly (readonly string[])[]>();
    for (const [name, those] of byScene) {
      const scene = SCENES[name];
      if (scene === undefined) {
        throw new Error(`${page}: no scene ${name}; there are ${Object.keys(SCENES).join(", ")}`);
      }
      for (const [key, value] of await runPage(lab, scene, those)) found.set(key, value);
    }
    for (const [{ line, steps }, outputs] of found) {
      const different = steps.flatMap(({ command, output }, i) =>
        same(output, outputs[i]!) ? [] : [{ command, output: outputs[i]! }]
      );
      if (different.length === 0) passed++;
      else failed++;
      for (const { command, output } of different) {
        console.log(`failed: ${page}:${line}: $ ${command}\n${output.map((one) => `    ${one}`).join("\n")}`);
      }
    }
    if (isWriting) {
      const next = rewritten(text, found);
      if (next !== text) Deno.writeTextFileSync(ROOT + page, next);
    }
  }
  await lab.close();
  console.log(`\n${passed} passed, ${failed} failed`);
  return isWriting || failed === 0 && passed > 0 ? 0 : 1;
}

if (import.meta.main) Deno.exit(await runIsolated(import.meta.url, inside, ISOLATED_PROGRAMS));
