/** `gatehouse review -f …`: reviews objects in files. */
import type { JsonObject } from '../../json/json.ts';
import { describePlace, metaTextOf, textOf, type PlacedObject } from './documents.ts';
import { userOf, type ReviewFlags } from './flags.ts';
import { readInputs, refuse, type ReadOptions } from './input.ts';
import { groupOf } from './kinds.ts';
import { isOwn } from './read-own.ts';
import { createReviewer, type ReviewContext, type ReviewRequest } from './reviewer.ts';

/** @throws UnusableInput and InvalidHandlers */
export async function reviewObjects(flags: ReviewFlags, options: ReadOptions, context: ReviewContext) {
  const { filename = [], namespace = 'default' } = flags;
  const [given = [], old = [], ...others] = readInputs(
    [filename, flags.old, flags.crds, flags.policies, flags.existing],
    options,
  );
  const own = given.filter(({ object }) => isOwn(object));
  const reviewed = given.filter(({ object }) => !isOwn(object));
  refuse(
    reviewed.length === 0
      ? [`${filename.join(', ')}: nothing to review: all objects configure Gatehouse`]
      : [],
  );
  const existing = [...others.flat(), ...own, ...old];
  const { review, notes, isEmpty } = createReviewer({ namespace, reviewed, existing }, context);
  refuse(isEmpty ? ['no AdmissionPolicy and no handler in the input: pass policies with -p'] : []);
  const requests = requestsFor(reviewed, old, flags, namespace);
  return { reviewed: await review(requests), notes };
}

function requestsFor(
  reviewed: readonly PlacedObject[],
  old: readonly PlacedObject[],
  flags: ReviewFlags,
  namespace: string,
): readonly ReviewRequest[] {
  const user = userOf(flags.user, flags.group);
  const before = new Map(old.map((placed) => [keyOf(placed.object, namespace), placed.object]));
  const requests = reviewed.map(({ object, place }): ReviewRequest => {
    const was = before.get(keyOf(object, namespace));
    const operation = flags.operation ?? (was === undefined ? 'CREATE' : 'UPDATE');
    return { place, object, old: was, operation, user };
  });
  refuse(
    requests.flatMap(({ place, object, old: was, operation }) =>
      operation === 'UPDATE' && was === undefined
        ? [`${describePlace(place)}: ${textOf(object, 'kind')} is not in --old, so it cannot be an UPDATE`]
        : [],
    ),
  );
  return requests;
}

/** Identifies an object in all its versions. */
function keyOf(object: JsonObject, namespace: string): string {
  const place = metaTextOf(object, 'namespace') || namespace;
  return JSON.stringify([groupOf(object), textOf(object, 'kind'), place, metaTextOf(object, 'name')]);
}
