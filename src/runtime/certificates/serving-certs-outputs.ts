import type { Secret } from '../../pki/serving-certs/secret.ts';
import type { Case } from './serving-certs-case.ts';

/** The password of a key store is watched by nobody: it is looked at again after so many milliseconds. */
export const PASSWORD_RECHECK_MS = 10 * 60_000;

/**
 * Which outputs were found right in which version of their Secret. The store holds neither key nor password, so it cannot tell;
 * a version that was looked at needs no second look, unless the password may have changed in the meantime.
 */
export interface CheckedOutputs {
  readonly holds: (secret: Pick<Secret, 'metadata'>, work: Case) => boolean;
  readonly add: (secret: Pick<Secret, 'metadata'>, work: Case) => void;
  /** The Service (`namespace/name`) asks for nothing any more. */
  readonly forget: (key: string) => void;
}

export function createCheckedOutputs(): CheckedOutputs {
  /** By Service: no two Secrets have the same version. */
  const checked = new Map<
    string,
    { readonly version: string; readonly asked: string; readonly until: number }
  >();
  const askedBy = ({ order }: Case): string => JSON.stringify([order.outputs, order.keystorePassword]);
  return {
    holds: ({ metadata }, work) => {
      if (work.order.outputs.length === 0) return true;
      const known = checked.get(work.key);
      return (
        known !== undefined &&
        known.version === metadata?.resourceVersion &&
        known.asked === askedBy(work) &&
        work.now.getTime() < known.until
      );
    },
    add: ({ metadata }, work) => {
      const version = metadata?.resourceVersion;
      if (work.order.outputs.length === 0 || version === undefined) return;
      const fixed = work.order.keystorePassword === undefined;
      const until = fixed ? Number.POSITIVE_INFINITY : work.now.getTime() + PASSWORD_RECHECK_MS;
      checked.set(work.key, { version, asked: askedBy(work), until });
    },
    forget: (key) => {
      checked.delete(key);
    },
  };
}
