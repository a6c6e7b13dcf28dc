/** Creates certificates for tests of TLS without external tools. */
import {
  AUTHORITY,
  certificateOf,
  type CertificatePair,
  type Der,
  type DistinguishedName,
  newKeys,
  otherNames,
  privateKeyPem,
  purposes,
} from "../../sources/site/x509.ts";

export type { CertificatePair };

/** A certificate authority. */
export interface CertificateAuthority {
  /** Its own certificate (PEM). */
  readonly cert: string;
  /**
   * Issues a server and client certificate for an IPv4 address, by default X.509 version 3 for 127.0.0.1.
   */
  issue(commonName: string, version?: 1 | 3, address?: string): Promise<CertificatePair>;
  /** Issues a certificate for clients only, as the kubelet's: with an organization, and without an address. */
  issueToClient(commonName: string, organization: string): Promise<CertificatePair>;
}

const DAY_MS = 86_400_000;

/** Creates an authority with a new key. */
export async function createCertificateAuthority(name: string): Promise<CertificateAuthority> {
  const authority = await newKeys();
  const issuer = { commonName: name };
  const sign = (subject: DistinguishedName, publicKey: CryptoKey, extensions: readonly Der[]) =>
    certificateOf({
      issuer,
      issuerKey: authority.privateKey,
      subject,
      publicKey,
      fromMs: Date.now() - DAY_MS,
      untilMs: Date.now() + DAY_MS,
      extensions,
    });
  const issue = async (subject: DistinguishedName, extensions: readonly Der[]) => {
    const keys = await newKeys();
    return { cert: await sign(subject, keys.publicKey, extensions), key: await privateKeyPem(keys.privateKey) };
  };
  return {
    cert: await sign(issuer, authority.publicKey, [AUTHORITY]),
    issue: (commonName, version = 3, address = "127.0.0.1") =>
      issue({ commonName }, version === 3 ? [otherNames(address)] : []),
    issueToClient: (commonName, organization) => issue({ commonName, organization }, [purposes("client")]),
  };
}
