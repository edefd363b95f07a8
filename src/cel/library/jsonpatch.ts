import { traversal } from '../frame.ts';
import { define } from './define.ts';

/** For mutations: keys as parts of the path of a JSON patch. */
export const jsonpatch = [
  define(
    'jsonpatch.escapeKey(string): string',
    (key) => key.replaceAll('~', '~0').replaceAll('/', '~1'),
    (key) => traversal(key.length),
  ),
];
