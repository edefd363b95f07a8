/** The kind in which Velero stores its restores, with the fields that are needed to follow them. */
import { definitionOf, resourceOf } from './definitions.ts';

export const RESTORES = resourceOf('velero.io', 'restores', 'Restore');

/** Like Velero's own CRD, without a status subresource: users who write a Restore may write its phase. */
export const restoreDefinition = definitionOf(RESTORES);
