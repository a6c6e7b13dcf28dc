/** The certificates with which the nodes of a site recognize each other. */
import { loadCertificateCheck } from "../kubernetes/mod.ts";
import { readTlsFiles, type TlsFiles, type TlsPaths } from "../../kpng/transport/mod.ts";
import type { Leader } from "./lease.ts";

/** The TLS of a server: its certificate, and whom it lets in. */
export interface ServerTls {
  readonly tls: TlsFiles;
  /** The organization that a client's certificate must name; any certificate of the CA if undefined. */
  readonly clientOrganization?: string;
}

/** The certificates of this node, read again at each use: their files are renewed. */
export interface SiteCertificates {
  /** The certificate that the Lease publishes (PEM); empty if the site's CA has signed the leader's certificate. */
  readonly published: string;
  server(): Promise<ServerTls>;
  client(leader: Leader): Promise<TlsFiles>;
}

/** Reads the certificates of a site from files that were given; all nodes have some of the same CA, for servers and clients. */
export function givenCertificates(paths: TlsPaths): SiteCertificates {
  const read = async () => {
    const files = readTlsFiles(paths, "--site-tls");
    if (files?.ca === undefined || files.crt === undefined || files.key === undefined) {
      throw new Error("--site-tls-ca, --site-tls-crt and --site-tls-key are needed");
    }
    const check = await loadCertificateCheck();
    check(files.crt, files.key);
    return files;
  };
  return { published: "", server: async () => ({ tls: await read() }), client: read };
}
