import type { Key } from './stored.ts';

/** Key of an object within its place, as etcd has it: lists are in the order of these. */
export const keyOf = ({ namespace, name }: Partial<Key>) =>
  namespace === undefined || namespace === '' ? (name ?? '') : `${namespace}/${name ?? ''}`;

/** All keys of a namespace lie from the one to before the other: `0` is the character after `/`. */
export const keyRangeOf = (namespace: string) => ({ from: `${namespace}/`, to: `${namespace}0` });
