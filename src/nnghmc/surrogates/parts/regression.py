"""Fits a symmetric matrix to pairs of positions and gradients."""

import numpy as np


def symmetric_regression(
    positions: np.ndarray, gradients: np.ndarray, ridge: float, diagonal: np.ndarray
) -> np.ndarray:
    """Find the symmetric H with gradients ≈ positions H, shrunk towards diag(`diagonal`) = D.

    H minimises |gradients - positions H|² / n + ridge |H - D|². Rows are points, and both arrays
    have mean zero. With the covariance S of the positions and C the cross-covariance of positions
    and gradients - positions D, the remainder R = H - D solves S R + R S + 2 ridge R = C + Cᵀ. In
    the eigenvectors of S this equation has one unknown per entry of R.
    """
    number = len(positions)
    covariance = positions.T @ positions / number
    cross = positions.T @ (gradients - positions * diagonal) / number
    values, vectors = np.linalg.eigh(covariance)
    rotated = vectors.T @ (cross + cross.T) @ vectors
    remainder = rotated / (values[:, np.newaxis] + values + 2 * ridge)
    return np.diag(diagonal) + vectors @ remainder @ vectors.T


def coordinate_slopes(positions: np.ndarray, gradients: np.ndarray) -> np.ndarray:
    """Regress each coordinate of the gradient on the same coordinate of the position.

    Both arrays have mean zero. The slopes are the diagonal of the best diagonal matrix.
    """
    variances = np.maximum((positions**2).mean(axis=0), np.finfo(float).tiny)
    return np.asarray((positions * gradients).mean(axis=0) / variances)
