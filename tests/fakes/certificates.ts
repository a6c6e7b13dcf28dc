/** Creates certificates for tests of TLS without external tools. */
import {
  certificateOf,
  type CertificatePair,
  type Der,
  type DistinguishedName,
  newKeys,
  otherNames,
  privateKeyPem,
  purposes,
} from "../../features/site/certificates.ts";

export type { CertificatePair };

/** When a certificate is valid, in milliseconds from now. */
export interface Validity {
  readonly fromMs?: number;
  readonly untilMs?: number;
}

/** A certificate authority. */
export interface CertificateAuthority {
  /** Its own certificate (PEM). */
  readonly cert: string;
  /**
   * Issues a server and client certificate for an IPv4 address, by default X.509 version 3 for 127.0.0.1.
   */
  issue(commonName: string, version?: 1 | 3, address?: string): Promise<CertificatePair>;
  /** Issues a server certificate that is valid between two times, in milliseconds from now; from a day ago for a day by default. */
  issueFor(validity: Validity, commonName: string, address: string): Promise<CertificatePair>;
  /** Issues a certificate for clients only, as the kubelet's: with an organization, and without an address. */
  issueToClient(commonName: string, organization: string): Promise<CertificatePair>;
}

/** The critical extension `basicConstraints` with `cA`, which makes a certificate an authority's (RFC 5280, 4.2.1.9). */
const AUTHORITY: Der = [0x30, 15, 0x06, 3, 0x55, 0x1d, 0x13, 0x01, 1, 0xff, 0x04, 5, 0x30, 3, 0x01, 1, 0xff];

const DAY_MS = 86_400_000;

/** Creates an authority with a new key. */
export async function createCertificateAuthority(name: string): Promise<CertificateAuthority> {
  const authority = await newKeys();
  const issuer = { commonName: name };
  const sign = (
    subject: DistinguishedName,
    publicKey: CryptoKey,
    extensions: readonly Der[],
    { fromMs = -DAY_MS, untilMs = DAY_MS }: Validity = {},
  ) =>
    certificateOf({
      issuer,
      issuerKey: authority.privateKey,
      subject,
      publicKey,
      fromMs: Date.now() + fromMs,
      untilMs: Date.now() + untilMs,
      extensions,
    });
  const issue = async (subject: DistinguishedName, extensions: readonly Der[], validity?: Validity) => {
    const keys = await newKeys();
    return {
      cert: await sign(subject, keys.publicKey, extensions, validity),
      key: await privateKeyPem(keys.privateKey),
    };
  };
  return {
    cert: await sign(issuer, authority.publicKey, [AUTHORITY]),
    issue: (commonName, version = 3, address = "127.0.0.1") =>
      issue({ commonName }, version === 3 ? [otherNames(address)] : []),
    issueFor: (validity, commonName, address) => issue({ commonName }, [otherNames(address)], validity),
    issueToClient: (commonName, organization) => issue({ commonName, organization }, [purposes("client")]),
  };
}
