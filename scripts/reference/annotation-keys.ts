/** The keys of docs/reference/annotations.md. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const PAGE = join(import.meta.dirname, '..', '..', 'docs', 'reference', 'annotations.md');

const keysIn = (text: string): readonly string[] =>
  [...text.matchAll(/^\| `([^`]+)` \|/gm)].map(([, key = '']) => key);

const [annotations = '', others = ''] = readFileSync(PAGE, 'utf8').split('\n## Labels\n');

export const ANNOTATION_KEYS = keysIn(annotations);

/** Annotations, labels and finalizers. */
export const METADATA_KEYS = [...ANNOTATION_KEYS, ...keysIn(others)];
