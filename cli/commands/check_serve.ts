/** The checks of `sluice check --serve`. */
import { type Finding, isUnreadable, problemFinding } from "../../core/problems/mod.ts";
import { isOfThisHost, readTlsFiles, type TlsFiles, type WireAddress } from "../../kpng/address/mod.ts";
import { abortedBy, errorText, joinHostPort, plural, silentLogger, splitHostPort } from "../../platform/mod.ts";
import { openClusterStore, readServerCertificate } from "../../serve/mod.ts";
import type { Invocation } from "./command.ts";
import { readDetailFilters, readServeAddresses } from "./serve.ts";

const SOURCE_MS = 10_000;
/** A certificate that expires earlier gets a warning. */
const SOON_MS = 7 * 86_400_000;

/** Runs all checks for `sluice serve` with the same flags. */
export async function findingsOfServe(invocation: Invocation): Promise<readonly Finding[]> {
  const { listen, tls, healthzBindAddress, metricsBindAddress } = readServeAddresses(invocation);
  const isRunning = await runsServer(metricsBindAddress, invocation.signal);
  const operatorAddress = (name: string, flag: string, bindAddress: string | undefined): readonly Finding[] => {
    if (bindAddress === undefined) return [];
    const { address: host, port } = splitHostPort(bindAddress);
    return [examineAddress(name, flag, { kind: "tcp", host, port }, isRunning)];
  };
  return [
    examineAddress("gRPC", "--listen", listen, isRunning),
    ...operatorAddress("health", "--healthz-bind-address", healthzBindAddress),
    ...operatorAddress("metrics", "--metrics-bind-address", metricsBindAddress),
    ...await examineTls(tls, listen, invocation),
    ...await examineSource(invocation),
  ];
}

const ANSWER_MS = 2000;

/** Whether a `sluice serve` already serves its metrics at an address. */
async function runsServer(metricsAddress: string | undefined, signal: AbortSignal): Promise<boolean> {
  if (metricsAddress === undefined) return false;
  const { address, port } = splitHostPort(metricsAddress);
  const host = address === "0.0.0.0" ? "127.0.0.1" : address === "::" ? "::1" : address;
  try {
    const limited = AbortSignal.any([signal, AbortSignal.timeout(ANSWER_MS)]);
    const response = await fetch(`http://${joinHostPort(host, port)}/metrics`, { signal: limited, redirect: "manual" });
    return /^sluice_serve_/m.test(await response.text());
  } catch {
    signal.throwIfAborted();
    return false;
  }
}

/** Whether a server can listen on an address now, or one of Sluice does. */
function examineAddress(name: string, flag: string, address: WireAddress, isRunning: boolean): Finding {
  const fix = `stop the program that listens there, or set ${flag} to another address`;
  try {
    if (address.kind === "unix") {
      const folder = address.path.replace(/[^/]*$/, "") || ".";
      if (!Deno.statSync(folder).isDirectory) throw new Error(`${folder} is not a folder`);
    } else Deno.listen({ hostname: address.host || "0.0.0.0", port: address.port }).close();
    return { name, verdict: "green", message: `can listen on ${addressText(address)}` };
  } catch (error) {
    if (isRunning && error instanceof Deno.errors.AddrInUse) {
      return { name, verdict: "green", message: `${addressText(address)}: used by the sluice serve that runs here` };
    }
    return problemFinding(name, "server-not-listening", `${addressText(address)}: ${errorText(error)}`, fix);
  }
}

function addressText(address: WireAddress): string {
  return address.kind === "unix" ? address.path : `${address.host || "all addresses"}, port ${address.port}`;
}

/** Whether the PEM files can be read and belong together, and who can connect. */
async function examineTls(paths: TlsFiles, listen: WireAddress, { clock }: Invocation): Promise<readonly Finding[]> {
  const name = "TLS";
  try {
    const files = readTlsFiles(paths, "--listen-tls");
    const open = files?.ca !== undefined || isOfThisHost(listen)
      ? []
      : [problemFinding(name, "server-unprotected", "does not require client certificates")];
    if (files !== undefined) return [await examineCertificate(files, clock.now()), ...open];
    return open.length > 0 ? open : [{ name, verdict: "green", message: "is not used; only this host can connect" }];
  } catch (error) {
    return [problemFinding(name, "certificate-unusable", errorText(error))];
  }
}

async function examineCertificate(files: TlsFiles, nowMs: number): Promise<Finding> {
  const name = "TLS";
  const certificate = await readServerCertificate(files);
  const fromMs = Date.parse(certificate.validFrom), toMs = Date.parse(certificate.validTo);
  if (nowMs < fromMs) throw new Error(`--listen-tls-crt: is valid only from ${certificate.validFrom}`);
  if (nowMs > toMs) throw new Error(`--listen-tls-crt: expired at ${certificate.validTo}`);
  if (toMs - nowMs < SOON_MS) {
    return problemFinding(name, "certificate-expiring", `--listen-tls-crt expires at ${certificate.validTo}`);
  }
  return { name, verdict: "green", message: `certificate and key match, valid until ${certificate.validTo}` };
}

async function examineSource(invocation: Invocation): Promise<readonly Finding[]> {
  const { configuration, clock, logger, signal, runProgram } = invocation;
  if (configuration.source.kind === "kube") {
    const { examineApi } = await import("../../sources/preflight/mod.ts");
    const { KINDS } = await import("../../core/objects/mod.ts");
    return await examineApi({ ...configuration, kinds: KINDS, nodeName: undefined, clock, logger, signal, runProgram });
  }
  const { sourceText } = await import("../../config/mod.ts");
  const name = "source", text = sourceText(configuration.source);
  const done = new AbortController();
  const within = abortedBy(signal, done.signal).signal;
  const cancel = clock.schedule(SOURCE_MS, () => done.abort());
  try {
    const failed = Promise.withResolvers<void>();
    const { store, problems, run } = await openClusterStore({
      ...invocation,
      details: readDetailFilters(invocation),
      logger: silentLogger,
      signal: within,
      onProblems(_, problems) {
        if (problems.some(({ code }) => isUnreadable(code))) failed.resolve();
      },
    });
    const { createChangeWaiters } = await import("../../kpng/server/mod.ts");
    await Promise.race([createChangeWaiters(store, clock).changed(0, within).catch(() => {}), failed.promise, run()]);
    if (store.ready()) {
      return [{ name, verdict: "green", message: `${text} has ${plural(store.state().services.length, "service")}` }];
    }
    const [problem] = problems.current();
    const { code, detail } = problem ??
      { code: "source-unreachable", detail: `no complete state within ${SOURCE_MS / 1000} s` };
    return [problemFinding(name, code, `${text}: ${detail}`)];
  } catch (error) {
    return [problemFinding(name, "source-unreachable", `${text}: ${errorText(error)}`)];
  } finally {
    cancel();
    done.abort();
  }
}
