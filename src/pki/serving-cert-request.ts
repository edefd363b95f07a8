import type { KubernetesObject } from '../api/meta.ts';
import {
  SERVING_CERT_DURATION,
  SERVING_CERT_KEY_ALGORITHM,
  SERVING_CERT_SECRET_NAME,
} from './annotations.ts';
import { dnsNameProblem, isObjectName, serviceDnsNames } from './dns-names.ts';
import { DAY, HOUR, parseDuration } from './durations.ts';
import { DEFAULT_KEY_ALGORITHM, isKeyAlgorithm, KEY_ALGORITHMS, type KeyAlgorithm } from './keys.ts';
import { DEFAULT_SERVING_CERT_LIFETIME } from './serving-cert.ts';

/** The fields of a Service that matter here. */
export interface Service extends KubernetesObject {
  readonly spec?: { readonly type?: string; readonly clusterIP?: string };
}

/** What a Service asks for. `invalid` cannot be mended by trying again, only by editing the Service. */
export type ServingCertRequest =
  | { readonly kind: 'none' }
  | { readonly kind: 'invalid'; readonly message: string }
  | {
      readonly kind: 'request';
      readonly secretName: string;
      readonly dnsNames: readonly string[];
      readonly algorithm: KeyAlgorithm;
      /** Milliseconds. */
      readonly lifetimeMs: number;
      /** Labels that the Secret has to carry. */
      readonly labels?: Readonly<Record<string, string>>;
    };

const MIN_LIFETIME = HOUR;
/** Half the life of the authority: every leaf can live its full life before its CA ends. */
const MAX_LIFETIME = 365 * DAY;

/** Reads the annotations of a Service. `clusterDomain`: e.g. `cluster.local`. */
export function servingCertRequest(service: Service, clusterDomain: string): ServingCertRequest {
  const { name = '', namespace = '', annotations = {} } = service.metadata ?? {};
  const secretName = annotations[SERVING_CERT_SECRET_NAME];
  if (secretName === undefined) return { kind: 'none' };
  if (!isObjectName(secretName))
    return invalid(
      `${SERVING_CERT_SECRET_NAME}: "${secretName}" cannot be the name of a Secret: use lower-case letters, digits, "-" and ".", ` +
        'at most 253, beginning and ending with a letter or digit',
    );

  const algorithm = annotations[SERVING_CERT_KEY_ALGORITHM] ?? DEFAULT_KEY_ALGORITHM;
  if (!isKeyAlgorithm(algorithm))
    return invalid(
      `${SERVING_CERT_KEY_ALGORITHM}: "${algorithm}" is not one of ${KEY_ALGORITHMS.join(', ')}`,
    );

  const duration = annotations[SERVING_CERT_DURATION];
  const lifetimeMs = duration === undefined ? DEFAULT_SERVING_CERT_LIFETIME : parseDuration(duration);
  if (lifetimeMs === undefined || lifetimeMs < MIN_LIFETIME || lifetimeMs > MAX_LIFETIME)
    return invalid(
      `${SERVING_CERT_DURATION}: "${duration ?? ''}" is not a duration from 1h to 365d such as 90d or 36h`,
    );

  const headless = service.spec?.clusterIP === 'None';
  const dnsNames = serviceDnsNames({ name, namespace, headless, clusterDomain });
  for (const dnsName of dnsNames) {
    const problem = dnsNameProblem(dnsName);
    if (problem !== undefined) return invalid(`the DNS name "${dnsName}" of the Service ${problem}`);
  }
  return { kind: 'request', secretName, dnsNames, algorithm, lifetimeMs };
}

const invalid = (message: string): ServingCertRequest => ({ kind: 'invalid', message });
