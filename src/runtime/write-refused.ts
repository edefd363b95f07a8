import { isDeepStrictEqual } from 'node:util';
import { adviceOn } from '../kube/refusal-advice.ts';
import { pick } from '../json/json.ts';
import type { KubeObject } from '../json/kube-object.ts';
import { insteadOf, isRefused } from '../kube/api-error.ts';

/** A retry fails until a user changes the object, a permission or a policy; no watch reports the last two. */
export class WriteRefused extends Error {
  override readonly name = 'WriteRefused';
}

export const REFUSED_RECHECK_MS = 60_000;
/** How long a refusal must last, in milliseconds: long enough for a store to receive a change. */
const CONFIRMED_MS = 2_000;

export type RefusedWrites = ReturnType<typeof createRefusedWrites>;

export function createRefusedWrites(now: () => Date) {
  const first = new Map<string, { readonly message: string; readonly at: number }>();
  const isConfirmed = (key: string, { message }: WriteRefused): boolean => {
    const known = first.get(key);
    const age = known?.message === message ? now().getTime() - known.at : -1;
    if (age < 0) first.set(key, { message, at: now().getTime() });
    return age >= CONFIRMED_MS;
  };
  const over = (key: string): void => {
    first.delete(key);
  };
  return {
    over,
    /** The first refusals are thrown: the object may have changed. One that lasts for seconds is returned, for users. */
    attempt: async <T>(key: string, work: () => Promise<T>): Promise<T | WriteRefused> => {
      try {
        const result = await work();
        over(key);
        return result;
      } catch (error) {
        if (error instanceof WriteRefused && isConfirmed(key, error)) return error;
        throw error;
      }
    },
  };
}

export async function isWritten(
  write: () => Promise<unknown>,
  tell: (problem: string) => void,
): Promise<boolean> {
  try {
    await write();
    return true;
  } catch (error) {
    if (!(error instanceof WriteRefused)) throw error;
    tell(error.message);
    return false;
  }
}

/** Optional parts of the metadata: without them, the object still does its work. */
const OPTIONAL = [['ownerReferences'], ['labels'], ['ownerReferences', 'labels']] as const;

export interface PartlyWritten<T> {
  readonly object: T;
  /** Fields of the metadata that the API server refuses to change, and why. */
  readonly refused?: { readonly fields: readonly string[]; readonly message: string };
}

/** If the API server refuses the owner or the labels, writes the rest, so that a policy on them stops no renewal. */
export async function writePossible<T extends KubeObject>(
  live: T | undefined,
  wanted: T,
  write: (object: T) => Promise<T>,
): Promise<PartlyWritten<T>> {
  try {
    return { object: await refusable(() => write(wanted)) };
  } catch (error) {
    if (!(error instanceof WriteRefused)) throw error;
    for (const fields of OPTIONAL) {
      const kept = keeping(fields, live, wanted);
      if (kept === undefined) continue;
      // All that is left of the change is what the API server refuses.
      const isTried = isDeepStrictEqual(kept, live);
      const object = isTried
        ? kept
        : await refusable(() => write(kept)).catch(insteadOf(isRefusal, undefined));
      if (object !== undefined) return { object, refused: { fields, message: error.message } };
    }
    throw error;
  }
}

/** With these fields of the metadata as in `live`. Undefined: they do not all change, or a new object would lack its owner. */
function keeping<T extends KubeObject>(
  fields: readonly ('ownerReferences' | 'labels')[],
  live: T | undefined,
  wanted: T,
): T | undefined {
  const { metadata = {} } = wanted;
  const changed = fields.every((field) => !isDeepStrictEqual(metadata[field], live?.metadata?.[field]));
  if (!changed || (live === undefined && fields.includes('ownerReferences'))) return undefined;
  const others = Object.entries(metadata).filter(([name]) => !fields.some((field) => field === name));
  return { ...wanted, metadata: { ...Object.fromEntries(others), ...pick(live?.metadata ?? {}, ...fields) } };
}

const isRefusal = (error: unknown): boolean => error instanceof WriteRefused;

export async function refusable<T>(write: () => Promise<T>): Promise<T> {
  try {
    return await write();
  } catch (error) {
    if (!isRefused(error)) throw error;
    const advice = adviceOn(error.message, error.code);
    throw new WriteRefused(`the API server refuses it. ${advice} It says: ${error.message}`, {
      cause: error,
    });
  }
}
