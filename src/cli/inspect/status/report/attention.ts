/** Something that a person should see to. */
export interface Attention {
  /** The part of the report that it stands in. */
  readonly part:
    'leader' | 'authority' | 'servingCerts' | 'injectionTargets' | 'admissionPolicies' | 'restoreWindows';
  /** E.g. `AdmissionPolicy servers`. */
  readonly object: string;
  /** What is wrong, and what to do. */
  readonly message: string;
}

/** A part, and what of it needs somebody. */
export interface Judged<Part> {
  readonly part: Part;
  readonly attention: readonly Attention[];
}
