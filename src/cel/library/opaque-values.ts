import type { CEL_TYPE, CelOpaque } from '../values/values.ts';
import type { GoUrl } from './go-url.ts';

/** An exact Kubernetes quantity: value × 10^scale. The smallest scale is nano; finer values are rounded up. */
export interface CelQuantity extends CelOpaque {
  readonly [CEL_TYPE]: 'kubernetes.Quantity';
  readonly value: bigint;
  readonly scale: number;
  /**
   * The API server stores most quantities as an int64 with a scale, and others (`1.5Gi`) as big decimals. Only the
   * former count as integers.
   */
  readonly small: boolean;
  /** For a sum or difference, which the API server cannot compare on the right side: `a == b.add(c)` is an error. */
  readonly isComputed?: true;
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

/** An address and the length of its network prefix. Keeps the other bits. */
export interface CelCidr extends CelOpaque {
  readonly [CEL_TYPE]: 'net.CIDR';
  readonly identity: bigint;
  readonly address: CelIp;
  readonly length: number;
}

/** A version as in https://semver.org. Drops build metadata, which does not affect comparison. */
export interface CelSemver extends CelOpaque {
  readonly [CEL_TYPE]: 'kubernetes.Semver';
  readonly identity: string;
  readonly numbers: readonly [major: bigint, minor: bigint, patch: bigint];
  readonly prerelease: readonly string[];
}

/** The problems of a text, in Kubernetes' words. None if the format is valid. */
export type Format = (text: string) => readonly string[];

/** A named text format of Kubernetes. */
export interface CelFormat extends CelOpaque {
  readonly [CEL_TYPE]: 'kubernetes.NamedFormat';
  readonly identity: string;
  readonly format: Format;
}
