/**
 * Runs the sessions of README.md and docs/ in a lab of network namespaces, with a proxy that serves deploy/example/, and compares
 * what they print with what the pages show.
 *
 *     deno task test:pages [PAGE…]
 *     deno task test:pages --write     # writes the new output into the pages
 *
 * A line `…` in a page stands for any lines. A marker `<!-- session: nftables -->` before a block selects another mode of the proxy; `not run: REASON` leaves it out.
 */
import { createLab, type Lab } from "../../demo/lab.ts";
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
const DEFAULT_MODE = "iptables";
/** What commands say about their source on standard error, which pages leave out. */
const ABOUT_THE_SOURCE = /^sluice: (answered by|using|no proxy|the proxy at)/;
/** Ends the output of a command. */
const END = "\x1e";

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

/** Runs the sessions of a page that are for a mode. */
async function runPage(lab: Lab, mode: string, sessions: readonly Session[]) {
  const outputs = new Map<Session, readonly (readonly string[])[]>();
  const configuration = `/run/pages-${mode}.yaml`;
  Deno.writeTextFileSync(
    configuration,
    `apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: ${mode}\n` +
      `clusterCIDR: 10.244.0.0/16,fd00:10:244::/48\nconntrack: { maxPerCore: 0 }\n`,
  );
  const sluice = startSluice(lab, SERVED, systemClock, configuration);
  try {
    await sluice.ready();
    // The rules of the proxy before serve, too, until this one has written its own.
    await lab.run("node", [`${BIN}/sluice`, "status", "--wait", "60s"]);
    for (const session of sessions) outputs.set(session, await outputsOf(lab, session));
  } finally {
    await sluice.stop();
  }
  return outputs;
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
    const byMode = Map.groupBy(
      sessions.filter(({ marker }) => !marker?.startsWith("not run: ")),
      ({ marker }) => marker ?? DEFAULT_MODE,
    );
    const found = new Map<Session, readonly (readonly string[])[]>();
    for (const [mode, those] of byMode) {
      for (const [key, value] of await runPage(lab, mode, those)) found.set(key, value);
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
