import type { CEL_TYPE, CelOpaque } from '../values/values.ts';
import type { GoUrl } from './go-url.ts';

/** A quantity of Kubernetes, exact: value × 10^scale. Scales go down to nano; what is finer was rounded up. */
export interface CelQuantity extends CelOpaque {
  readonly [CEL_TYPE]: 'kubernetes.Quantity';
  readonly value: bigint;
  readonly scale: number;
  /**
   * The API server keeps most quantities as an int64 and a scale, and others (`1.5Gi`) as big decimals. Only of the former does it
   * say that they are integers.
   */
  readonly small: boolean;
}

export interface CelUrl extends CelOpaque {
  readonly [CEL_TYPE]: 'kubernetes.URL';
  readonly identity: string;
  readonly parts: GoUrl;
}

export interface CelIp extends CelOpaque {
  readonly [CEL_TYPE]: 'net.IP';
  readonly identity: bigint;
  /** As one number of 32 or 128 bits. */
  readonly bits: bigint;
  readonly family: 4 | 6;
}

/** An address and how many of its bits name the network; the other bits are kept. */
export interface CelCidr extends CelOpaque {
  readonly [CEL_TYPE]: 'net.CIDR';
  readonly identity: bigint;
  readonly address: CelIp;
  readonly length: number;
}

/** A version by https://semver.org; build metadata is not kept, for it counts for nothing. */
export interface CelSemver extends CelOpaque {
  readonly [CEL_TYPE]: 'kubernetes.Semver';
  readonly identity: string;
  readonly numbers: readonly [major: bigint, minor: bigint, patch: bigint];
  readonly prerelease: readonly string[];
}

/** The problems of a text in Kubernetes' words. None when it has the format. */
export type Format = (text: string) => readonly string[];

/** One of Kubernetes' formats of texts, by its name. */
export interface CelFormat extends CelOpaque {
  readonly [CEL_TYPE]: 'kubernetes.NamedFormat';
  readonly identity: string;
  readonly format: Format;
}
