"""Demonstrations that need nothing but the package: real signals through real models."""
