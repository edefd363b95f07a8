/** `gatehouse review -f …`: reviews objects in files. */
import type { JsonObject } from '../../json/json.ts';
import { describePlace, metaTextOf, textOf, type PlacedObject } from './documents.ts';
import { userOf, type ReviewFlags } from './flags.ts';
import { readInputs, refuse, type ReadOptions } from './input.ts';
import type { ReviewedObject } from './review-result.ts';
import { isOwn } from './read-own.ts';
import { createReviewer, type ReviewerParts, type ReviewRequest } from './reviewer.ts';

export interface ObjectsReview {
  readonly reviewed: readonly ReviewedObject[];
  readonly notes: readonly string[];
}

export type ReviewContext = Pick<ReviewerParts, 'handlers' | 'logFor' | 'ownNamespace' | 'now'>;

/** @throws UnusableInput and InvalidHandlers */
export async function reviewObjects(
  flags: ReviewFlags,
  options: ReadOptions,
  context: ReviewContext,
): Promise<ObjectsReview> {
  const { filename = [], namespace = 'default' } = flags;
  const [given = [], old = [], ...others] = readInputs(
    [filename, flags.old, flags.crds, flags.policies, flags.existing],
    options,
  );
  const reviewed = given.filter((placed) => !isOwn(placed.object));
  refuse(
    reviewed.length === 0
      ? [`${filename.join(', ')}: nothing to review: all objects configure Gatehouse`]
      : [],
  );
  const reviewer = createReviewer({
    ...context,
    namespace,
    reviewed,
    existing: [...others.flat(), ...given.filter(({ object }) => isOwn(object)), ...old],
  });
  refuse(
    reviewer.judges === 0 ? ['no AdmissionPolicy and no handler in the input: pass policies with -p'] : [],
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

/** Identifies an object in all its versions. */
function keyOf(object: JsonObject, namespace: string): string {
  const [group = '', version] = textOf(object, 'apiVersion').split('/');
  return JSON.stringify([
    version === undefined ? '' : group,
    textOf(object, 'kind'),
    metaTextOf(object, 'namespace') || namespace,
    metaTextOf(object, 'name'),
  ]);
}
