/** The webhook entries for Gatehouse's own kinds, which are there whatever the policies. */

import type { Operation } from '../review/request.ts';

/** Fails closed: without Gatehouse nobody opens a window, and nobody needs one then. */
export const OPENING_ENTRY = 'own-opening';
/** Fails open: policies have to be mended, and all of this be uninstalled, while Gatehouse is down. */
export const STATE_ENTRY = 'own-state';

export interface OwnEntry {
  readonly entryId: string;
  readonly phase: 'mutate' | 'validate';
  readonly failurePolicy: 'Fail' | 'Ignore';
  readonly rules: readonly {
    readonly operations: readonly Operation[];
    readonly resources: readonly string[];
  }[];
}

export const OWN_ENTRIES: readonly OwnEntry[] = [
  {
    entryId: OPENING_ENTRY,
    phase: 'mutate',
    failurePolicy: 'Fail',
    rules: [{ operations: ['CREATE', 'UPDATE'], resources: ['restorewindows'] }],
  },
  {
    entryId: OPENING_ENTRY,
    phase: 'validate',
    failurePolicy: 'Fail',
    rules: [{ operations: ['CREATE', 'UPDATE'], resources: ['restoredetectors', 'restorewindows'] }],
  },
  {
    entryId: STATE_ENTRY,
    phase: 'validate',
    failurePolicy: 'Ignore',
    rules: [
      {
        operations: ['CREATE', 'UPDATE', 'DELETE'],
        resources: ['admissionpolicies', 'conversionpolicies', 'restorereports', 'uniqueclaims'],
      },
      { operations: ['DELETE'], resources: ['restoredetectors', 'restorewindows'] },
    ],
  },
];

export const isOwnEntry = (entry: string): boolean => entry === OPENING_ENTRY || entry === STATE_ENTRY;
