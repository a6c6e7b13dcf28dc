/** The certificates of `sluice serve`: their checks, and their renewal while it runs. */
import type { X509Certificate } from "node:crypto";
import { readTlsFiles, type TlsFiles, type TlsPaths } from "../kpng/address/mod.ts";
import { type ClockAndLogger, dirname, errorText, sameData, watchChanges } from "../platform/mod.ts";

/** Returns the server's certificate. Throws an Error that names the flag if the files do not belong together. */
export async function readServerCertificate({ ca, crt, key }: TlsFiles): Promise<X509Certificate> {
  if (crt === undefined || key === undefined) throw new Error("--listen-tls-ca needs a server certificate and key");
  const { createPrivateKey } = await import("node:crypto");
  if (ca !== undefined) await readCertificate(ca, "--listen-tls-ca");
  const certificate = await readCertificate(crt, "--listen-tls-crt");
  let matches: boolean;
  try {
    matches = certificate.checkPrivateKey(createPrivateKey(key));
  } catch (error) {
    throw new Error(`--listen-tls-key: not a private key in PEM form: ${errorText(error)}`);
  }
  if (!matches) throw new Error("--listen-tls-key is not the key of the certificate in --listen-tls-crt");
  return certificate;
}

async function readCertificate(pem: string, flag: string): Promise<X509Certificate> {
  const { X509Certificate } = await import("node:crypto");
  try {
    return new X509Certificate(pem);
  } catch (error) {
    throw new Error(`${flag}: not a certificate in PEM form: ${errorText(error)}`);
  }
}

interface CertificateFollowerOptions extends ClockAndLogger {
  readonly paths: TlsPaths;
  /** The contents in use; undefined without TLS. */
  readonly current: TlsFiles | undefined;
  /** Takes new contents that belong together. */
  readonly renew: (files: TlsFiles) => void;
  readonly signal: AbortSignal;
}

const QUIET_MS = 200;
/** How often the files are read without an event: their folder may be replaced, as a mounted Secret's is. */
const POLL_MS = 10_000;

/** Passes on the files' contents whenever they have changed; files that do not belong together are logged and ignored. */
export async function followCertificates(options: CertificateFollowerOptions): Promise<void> {
  const { paths, renew, clock, logger, signal } = options;
  let { current } = options;
  if (current === undefined || paths.crt === undefined) return;
  const changes = watchChanges({ clock, logger, signal, quietMs: QUIET_MS, pollMs: POLL_MS });
  let refused = "";
  while (!signal.aborted) {
    await changes.watch(dirname(paths.crt));
    await changes.next();
    if (signal.aborted) return;
    try {
      const files = readTlsFiles(paths, "--listen-tls");
      if (files === undefined || sameData(files, current)) continue;
      const { validTo } = await readServerCertificate(files);
      renew(files);
      current = files;
      refused = "";
      logger.info("certificates changed, using the new ones for new connections", { validTo });
    } catch (error) {
      const reason = errorText(error);
      if (reason !== refused) {
        logger.warn("certificates changed but cannot be used, keeping the earlier ones", { reason });
      }
      refused = reason;
    }
  }
}
