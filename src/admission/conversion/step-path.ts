/** The paths of conversion steps: their allowed targets, and their parsed form. */
import { InvalidPath, parsePath, type Segment } from '../../json/field-path.ts';
import { isQualifiedName } from '../../json/names.ts';
import { quote } from '../../json/printable.ts';
import { isPreservedKey } from './preserved-annotation.ts';

/** `spec.disks[*].size.bytes` is the list `spec.disks[*]` and below each element the fields `size`, `bytes`. */
export interface StepPath {
  /** As written in the policy. */
  readonly text: string;
  readonly segments: readonly Segment[];
  /** The path up to the last `[*]`; empty if there is none. */
  readonly list: readonly Segment[];
  /** The fields below `list`. */
  readonly fields: readonly string[];
}

/**
 * Parses a path and checks that a conversion may change its target.
 *
 * @throws InvalidPath that says what to write instead
 */
export function parseStepPath(text: string): StepPath {
  const { segments } = parsePath(text);
  const fields: string[] = [];
  let list: readonly Segment[] = [];
  for (const [index, segment] of segments.entries()) {
    switch (segment.kind) {
      case 'field':
        fields.push(segment.name);
        break;
      case 'each':
        list = segments.slice(0, index + 1);
        fields.length = 0;
        break;
      case 'index':
        throw new InvalidPath(
          `${quote(text)} names one element of a list: write [*] for all of them, or set the whole list by an expression`,
        );
    }
  }
  checkRoot(segments);
  return { text, segments, list, fields };
}

function checkRoot([first, map, key, more]: readonly Segment[]): void {
  if (first?.kind !== 'field') throw new InvalidPath('starts inside a list: start with a field such as spec');
  if (first.name === 'apiVersion' || first.name === 'kind')
    throw new InvalidPath(`${first.name} is written by Gatehouse: no step may change it`);
  if (first.name !== 'metadata') return;
  if (map?.kind !== 'field' || (map.name !== 'labels' && map.name !== 'annotations') || more !== undefined)
    throw new InvalidPath(
      'of metadata, a conversion may change labels and annotations only: the API server restores or refuses the rest',
    );
  if (key?.kind !== 'field')
    throw new InvalidPath(`name one key, such as metadata.${map.name}["example.com/rack"]`);
  if (!isQualifiedName(key.name))
    throw new InvalidPath(`${quote(key.name)} is not a key that ${map.name} can have`);
  if (isPreservedKey(key.name))
    throw new InvalidPath(
      `the annotation ${key.name} belongs to Gatehouse, which keeps values of other versions in it`,
    );
}
