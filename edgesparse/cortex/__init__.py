"""What a plan costs on a Cortex-M core, predicted from its steps: instructions as QEMU counts."""
