/** `gatehouse review -f …`: objects in files. */
import type { JsonObject } from '../../json/json.ts';
import { describePlace, metaTextOf, textOf, type PlacedObject } from './documents.ts';
import { userOf, type ReviewFlags } from './flags.ts';
import { readInputs, refuse, type ReadOptions } from './input.ts';
import type { Reviewed } from './review-result.ts';
import { isOwn } from './read-own.ts';
import { createReviewer, type ReviewerParts, type ReviewRequest } from './reviewer.ts';

export interface ObjectsReview {
  readonly reviewed: readonly Reviewed[];
  readonly notes: readonly string[];
}

export type Surroundings = Pick<ReviewerParts, 'handlers' | 'logFor' | 'ownNamespace' | 'now'>;

/** @throws UnusableInput and InvalidHandlers */
export async function reviewObjects(
  flags: ReviewFlags,
  options: ReadOptions,
  surroundings: Surroundings,
): Promise<ObjectsReview> {
  const { filename = [], namespace = 'default' } = flags;
  const [given = [], old = [], ...others] = readInputs(
    [filename, flags.old, flags.crds, flags.policies, flags.existing],
    options,
  );
  const reviewed = given.filter((placed) => !isOwn(placed.object));
  refuse(
    reviewed.length === 0
      ? [`${filename.join(', ')}: there is nothing to review, only what configures Gatehouse`]
      : [],
  );
  const reviewer = createReviewer({
    ...surroundings,
    namespace,
    reviewed,
    existing: [...others.flat(), ...given.filter(({ object }) => isOwn(object)), ...old],
  });
  refuse(
    reviewer.judges === 0
      ? ['there is no AdmissionPolicy and no handler to judge by: give policies with -p']
      : [],
  );
  const requests = requestsFor(reviewed, old, flags, namespace);
  return { reviewed: await reviewer.review(requests), notes: reviewer.notes };
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
      operation === 'UPDATE' && was === undefined && place !== undefined
        ? [`${describePlace(place)}: ${textOf(object, 'kind')} is not in --old, so it cannot be an UPDATE`]
        : [],
    ),
  );
  return requests;
}

/** The same in all versions. */
function keyOf(object: JsonObject, namespace: string): string {
  const [group = '', version] = textOf(object, 'apiVersion').split('/');
  return JSON.stringify([
    version === undefined ? '' : group,
    textOf(object, 'kind'),
    metaTextOf(object, 'namespace') || namespace,
    metaTextOf(object, 'name'),
  ]);
}
